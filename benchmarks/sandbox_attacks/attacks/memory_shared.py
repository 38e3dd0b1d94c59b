"""Shared anonymous mappings, which the limit of a process does not count."""

import mmap
from kit import *

held = []
for _ in range(64):
    area = mmap.mmap(-1, 32 << 20)
    for page in range(0, 32 << 20, 4096):
        area[page] = 1
    held.append(area)
