"""Shared memory by another name: a mapping of /dev/zero."""

import mmap, time
from kit import *

MAP_POPULATE = 0x8000
held = []
for name in ("zero", "full", "null", "random"):
    for _ in range(44):
        descriptor = os.open(f"/dev/{name}", os.O_RDWR)
        area = attempt(lambda: mmap.mmap(descriptor, 32 << 20, mmap.MAP_SHARED | MAP_POPULATE))
        if not isinstance(area, mmap.mmap):
            break
        os.close(descriptor)
        held.append(area)
        area.madvise(mmap.MADV_DONTNEED)
time.sleep(1)
