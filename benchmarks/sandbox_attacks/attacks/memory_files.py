"""Memory files, in no process's account, sent through sockets and closed."""

import ctypes, socket
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
block = os.urandom(1 << 20)
left, right = socket.socketpair()
for _ in range(60):
    fd = libc.memfd_create(b"x", 0)
    if fd < 0:
        fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
    for _ in range(60):
        if isinstance(attempt(os.write, fd, block), Exception):
            break
    attempt(socket.send_fds, left, [b"x"], [fd])
    os.close(fd)
