"""Three gibibytes in one file, past the limit of a file, by several ways."""

from kit import *
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
block = os.urandom(1 << 20)
fd = os.open("big", os.O_CREAT | os.O_RDWR)
for _ in range(3000):
    if isinstance(attempt(os.write, fd, block), Exception):
        break
attempt(os.posix_fallocate, fd, 0, 3 << 30)
attempt(os.truncate, "big", 3 << 30)
