"""Signals that go to the owner of a descriptor: a process outside is made the owner."""

import fcntl, signal
from kit import *

for fd in (0, 1, 2):
    for owner in (VICTIM, -VICTIM, PARENT):
        attempt(fcntl.fcntl, fd, fcntl.F_SETOWN, owner)
        attempt(fcntl.fcntl, fd, 10, signal.SIGUSR1)
        attempt(lambda: fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC))
print("x" * 100, flush=True)
