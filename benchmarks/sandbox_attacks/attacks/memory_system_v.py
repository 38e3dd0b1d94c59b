"""System V segments and queues that nobody is attached to."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
for _ in range(64):
    segment = libc.shmget(0, 32 << 20, 0o1600)
    if segment < 0:
        break
    address = libc.shmat(segment, None, 0)
    ctypes.memset(address, 1, 32 << 20)
    libc.shmdt(ctypes.c_void_p(address))
text = ctypes.create_string_buffer(8200)
for _ in range(5000):
    queue = libc.msgget(0, 0o1600)
    if queue < 0 or libc.msgsnd(queue, text, 8192, 0o4000) < 0:
        break
