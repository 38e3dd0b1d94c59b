"""Takes half of a pool that all programs of the machine share: queues of asynchronous reads and writes."""

import ctypes, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP = {"x86_64": 206, "aarch64": 0}[os.uname().machine]
for _ in range(16):
    context = ctypes.c_ulong(0)
    if libc.syscall(IO_SETUP, 1000, ctypes.byref(context)) < 0:
        break
time.sleep(0.5)
