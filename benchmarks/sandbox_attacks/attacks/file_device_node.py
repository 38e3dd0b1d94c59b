"""Makes device nodes for the disk and the kernel's memory, and reads them."""

import stat
from kit import *

for name, mode, major, minor in (
    ("disk", stat.S_IFBLK, 254, 0),
    ("sda", stat.S_IFBLK, 8, 0),
    ("mem", stat.S_IFCHR, 1, 1),
    ("kmsg", stat.S_IFCHR, 1, 11),
):
    for folder in (".", "/tmp", "/dev/shm"):
        attempt(os.mknod, f"{folder}/{name}", mode | 0o666, os.makedev(major, minor))
        attempt(show, f"{folder}/{name}")
for name in (
    "/dev/mem",
    "/dev/kmem",
    "/dev/port",
    "/dev/vda",
    "/dev/sda",
    "/dev/kmsg",
    "/dev/fuse",
    "/dev/kvm",
    "/dev/loop-control",
):
    attempt(show, name)
