"""Extended attributes of the standard input, whose file system counts them nowhere, and of every other file."""

import time
from kit import *

block = b"x" * 65000
for target in (0, "/proc/self/fd/0", 1, 2, ".", "/tmp", "/dev/shm"):
    for number in range(20000):
        if isinstance(attempt(os.setxattr, target, f"user.x{number}", block), Exception):
            break
time.sleep(1)
