"""Mounts the disk, the host's process table, and anything by the new mount calls."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("m", exist_ok=True)
for source, kind in (
    ("/dev/vda", "ext4"),
    ("/dev/sda1", "ext4"),
    ("proc", "proc"),
    ("sysfs", "sysfs"),
    ("cgroup", "cgroup"),
    ("cgroup2", "cgroup2"),
    ("devtmpfs", "devtmpfs"),
    ("mqueue", "mqueue"),
    ("x", "fuse"),
    ("x", "overlay"),
):
    print(source, libc.mount(source.encode(), b"m", kind.encode(), 0, None), ctypes.get_errno())
print(libc.mount(b"/", b"m", None, 4096 | 16384, None), libc.mount(EVALUATOR.encode(), b"m", None, 8192, None))
fs = libc.syscall(430, b"proc", 0)
tree = libc.syscall(428, -100, b"/", 1)
print(fs, tree, libc.syscall(429, tree, b"", -100, b"m", 4), libc.syscall(155, b".", b"."))
for path in (f"m{SECRET_FILE}", f"m/1/root{SECRET_FILE}"):
    show(path)
