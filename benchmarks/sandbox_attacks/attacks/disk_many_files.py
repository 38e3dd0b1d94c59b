"""Many files, each below the limit."""

from kit import *

block = os.urandom(1 << 20)
for number in range(100):
    with open(f"f{number}", "wb") as file:
        for _ in range(32):
            attempt(file.write, block)
