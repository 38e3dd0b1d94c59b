"""Swaps a folder for a link to the whole disk while its size is being counted."""

import time
from kit import *

block = os.urandom(1 << 20)
os.makedirs("x/y")
if os.fork() == 0:
    while True:
        try:
            os.rename("x", "z")
            os.symlink("/", "x")
            os.unlink("x")
            os.rename("z", "x")
        except OSError:
            pass
for number in range(50):
    open(f"f{number % 3}", "wb").write(block * 16)
    time.sleep(0.05)
