"""Becomes root of a namespace of its own, by every call that makes one, and mounts."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x10000000), libc.unshare(0x10000000 | 0x20000), libc.unshare(0x40000000), libc.unshare(0x80))
for flags in (0x10000000, 0x10020000, 0x7E020000, 0x10000080):
    pid = libc.syscall(56, flags | 17, 0, 0, 0, 0)
    if pid == 0:
        libc.mount(b"tmpfs", b"/workspace", b"tmpfs", 0, None)
        libc.sethostname(TOKEN.encode(), len(TOKEN))
        show(ROOT_FILE)
        os._exit(0)
arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
pid = libc.syscall(435, arguments, 64)
if pid == 0:
    os._exit(0)
print("clone3", pid)
os.system("unshare -Ur sh -c 'mount -t tmpfs x /tmp; id' 2>&1; bwrap --bind / / id 2>&1")
