"""Deleted files that no process has open: they are on their way through a socket."""

import socket
from kit import *

block = os.urandom(1 << 20)
left, right = socket.socketpair()
left.setblocking(False)
for number in range(40):
    fd = os.open(f"x{number}", os.O_CREAT | os.O_RDWR)
    os.unlink(f"x{number}")
    for _ in range(60):
        os.write(fd, block)
    attempt(socket.send_fds, left, [b"x"], [fd])
    os.close(fd)
