"""Locks memory and asks never to be chosen when memory runs out."""

import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
print(libc.mlockall(3), libc.mlock2(0, 0, 0))
attempt(lambda: open("/proc/self/oom_score_adj", "w").write("-1000"))
attempt(lambda: open("/proc/self/oom_adj", "w").write("-17"))
held = [bytearray(b"x") * (64 << 20) for _ in range(40)]
