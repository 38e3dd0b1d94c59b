"""TCP buffers that were asked to be as large as the machine lets them."""

import socket, time
from kit import *

block = b"x" * (1 << 20)
listener = socket.create_server(("127.0.0.1", 0))
for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
    listener.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
for _ in range(8):
    if os.fork() == 0:
        break
held = []
for _ in range(50):
    try:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
        one.connect(listener.getsockname())
        two, _ = listener.accept()
    except OSError:
        break
    held += [one, two]
    for item in (one, two):
        item.setblocking(False)
        try:
            while True:
                item.send(block)
        except OSError:
            pass
time.sleep(20)
