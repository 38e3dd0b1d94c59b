"""Deleted files that no process has open: they are only mapped, one page of each."""

import mmap
from kit import *

block = os.urandom(1 << 20)
held = []
for number in range(40):
    fd = os.open(f"x{number}", os.O_CREAT | os.O_RDWR)
    os.unlink(f"x{number}")
    for _ in range(60):
        os.write(fd, block)
    held.append(mmap.mmap(fd, 4096))
    os.close(fd)
