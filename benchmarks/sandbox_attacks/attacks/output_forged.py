"""Prints what looks like the sandbox's own messages, and writes to its input."""

import struct
from kit import *

os.write(1, struct.pack("=I", 20) + b'{"head": {"status": 0}, "bodies": [0, 0]}' + b"\x1b]0;x\x07" + b"ended 0")
for path in ("/proc/self/fd/0", "/dev/stdin"):
    for flags in (os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        attempt(lambda: os.write(os.open(path, flags), TOKEN.encode()))
attempt(os.ftruncate, 0, 1 << 30)
attempt(os.write, 0, b"x")
