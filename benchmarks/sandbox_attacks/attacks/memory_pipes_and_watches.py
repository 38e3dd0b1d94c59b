"""Pipes made as large as allowed and filled, and sets that watch every one of them."""

import fcntl, select, time
from kit import *

block = b"x" * (1 << 20)
for _ in range(50):
    try:
        if os.fork() == 0:
            break
    except OSError:
        break
ends = []
for _ in range(20):
    try:
        ends += os.pipe()
    except OSError:
        break
    os.set_blocking(ends[-1], False)
    attempt(fcntl.fcntl, ends[-1], 1031, 1 << 20)
    attempt(os.write, ends[-1], block)
while True:
    try:
        watch = select.epoll()
    except OSError:
        break
    ends.append(watch)
    for end in ends:
        attempt(watch.register, end)
time.sleep(20)
