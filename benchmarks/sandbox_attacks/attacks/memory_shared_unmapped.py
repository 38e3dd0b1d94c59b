"""Shared memory of which all but one page is unmapped, and that is still there."""

import ctypes, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
SIZE = 32 << 20
for _ in range(44):
    for kind in (0x8021, 0x8023):  # MAP_SHARED or MAP_SHARED_VALIDATE, with MAP_ANONYMOUS and MAP_POPULATE
        area = libc.mmap(None, SIZE, 3, kind, -1, 0)
        if area not in (None, 2**64 - 1):
            libc.munmap(area + 4096, SIZE - 4096)
            break
time.sleep(1)
