"""System V memory, queues and semaphores by their numbers, whatever their keys."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
for number in range(64):
    address = libc.shmat(number, None, 0)
    if address not in (None, ctypes.c_void_p(-1).value):
        ctypes.memmove(address, TOKEN.encode(), len(TOKEN))
for number in range(64):
    print(libc.msgrcv(number, ctypes.create_string_buffer(100), 90, 0, 0o4000), libc.semctl(number, 0, 16, 1))
