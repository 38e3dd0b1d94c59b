"""Page tables: a huge mapping of nothing, read page by page."""

import ctypes, mmap
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = 1 << 40
address = libc.mmap(None, size, 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
for offset in range(0, size, 1 << 21):
    ctypes.string_at(address + offset, 1)
