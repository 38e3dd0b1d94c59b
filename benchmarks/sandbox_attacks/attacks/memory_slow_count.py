"""Makes its memory slow to count, by many mappings in many children that share them, then takes more than allowed."""

import ctypes, mmap, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for number in range(60000):
    address = libc.mmap(None, 4096, 1 + 2 * (number % 2), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if number % 2:
        ctypes.memset(address, 1, 1)
for _ in range(50):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError:
        break
time.sleep(1)
for _ in range(12):
    try:
        if os.fork() == 0:
            held = bytearray(b"x") * (100 << 20)
            time.sleep(20)
            os._exit(0)
    except OSError:
        break
time.sleep(20)
