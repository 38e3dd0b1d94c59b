"""Asks for root's ids, capabilities and privileges."""

import ctypes, struct
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
for call in (
    lambda: os.setuid(0),
    lambda: os.setgid(0),
    lambda: os.setgroups([0]),
    lambda: os.setresuid(0, 0, 0),
    lambda: os.setreuid(700000, 0),
):
    attempt(call)
everything = ctypes.create_string_buffer(struct.pack("=6I", *[0xFFFFFFFF] * 6))
print(libc.capset(ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0)), everything))
for capability in range(41):
    libc.prctl(47, 2, capability, 0, 0)
libc.prctl(38, 0, 0, 0, 0)
libc.prctl(28, 0, 0, 0, 0)
attempt(lambda: open("/proc/self/uid_map", "w").write("0 0 1"))
show(ROOT_FILE)
leave(f"{OPEN_DIR}/{TOKEN}")
leave(f"/root/{TOKEN}")
