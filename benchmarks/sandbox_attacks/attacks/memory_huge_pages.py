"""Huge pages of the machine's pool, which the resident set does not count."""

import mmap, time
from kit import *

held = []
for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
    for _ in range(1000):
        try:
            area = mmap.mmap(-1, 2 << 20, flags=flags | mmap.MAP_ANONYMOUS | 0x40000)
            area[0] = 1
        except (OSError, ValueError):
            break
        held.append(area)
time.sleep(1)
