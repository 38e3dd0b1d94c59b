"""System V semaphores: kernel memory in no process's account."""

import ctypes, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
for _ in range(700):
    if libc.semget(0, 32000, 0o1600) < 0:
        break
time.sleep(1)
