"""Shared memory whose pages no process has mapped any more, and that is still there."""

import mmap, time
from kit import *

MAP_POPULATE = 0x8000
held = []
for _ in range(44):
    held.append(mmap.mmap(-1, 32 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | MAP_POPULATE))
    held[-1].madvise(mmap.MADV_DONTNEED)
time.sleep(1)
