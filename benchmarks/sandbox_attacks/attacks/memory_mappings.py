"""Mappings by the ten thousand in every process: what the kernel notes about each is in no process's account."""

import ctypes, mmap, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for number in range(65000):
    libc.mmap(None, 4096, 1 + 2 * (number % 2), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
for _ in range(60):
    try:
        if os.fork() == 0:
            break
    except OSError:
        break
time.sleep(20)
