"""Deleted files on their way through a socket, written by short-lived children that nobody waits for."""

import signal, socket, time
from kit import *

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
block = os.urandom(1 << 20)
left, right = socket.socketpair()
left.setblocking(False)
for number in range(100):
    if os.fork() == 0:
        fd = os.open(f"x{number}", os.O_CREAT | os.O_RDWR)
        os.unlink(f"x{number}")
        for _ in range(32):
            os.write(fd, block)
        attempt(socket.send_fds, left, [b"x"], [fd])
        os._exit(0)
    if number % 3 == 2:
        time.sleep(0.05)
time.sleep(3)
