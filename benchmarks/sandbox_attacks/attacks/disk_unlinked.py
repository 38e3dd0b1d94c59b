"""Deleted files that are still open, which no folder shows."""

from kit import *

block = os.urandom(1 << 20)
held = []
for number in range(60):
    fd = os.open(f"x{number}", os.O_CREAT | os.O_RDWR)
    os.unlink(f"x{number}")
    held.append(fd)
    for _ in range(60):
        os.write(fd, block)
