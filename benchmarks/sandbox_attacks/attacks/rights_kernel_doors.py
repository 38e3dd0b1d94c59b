"""Doors of the kernel that go around files and processes: io_uring, bpf, perf, userfaultfd, modules, keys, fanotify."""

import ctypes, struct
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
zero = ctypes.create_string_buffer(256)
calls = {
    "io_uring_setup": (425, 8, zero),
    "bpf": (321, 0, zero, 120),
    "perf_event_open": (298, zero, 0, -1, -1, 0),
    "userfaultfd": (323, 0),
    "finit_module": (313, 0, b"", 0),
    "fanotify_init": (300, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "open_tree": (428, -100, b"/", 1),
    "memfd_secret": (447, 0),
    "acct": (163, f"{OPEN_DIR}/{TOKEN}".encode()),
    "swapon": (167, b"x", 0),
    "quotactl": (179, 0x800007, b"/dev/vda", 0, zero),
}
for name, (number, *arguments) in calls.items():
    print(name, libc.syscall(number, *arguments), ctypes.get_errno())
for ring in (-3, -4, -5):
    print(libc.syscall(248, b"user", TOKEN.encode(), b"x", 1, ring))
