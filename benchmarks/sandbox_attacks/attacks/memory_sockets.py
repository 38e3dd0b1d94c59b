"""Socket and pipe buffers: kernel memory in no process's account."""

import socket, time
from kit import *

block = b"x" * 65536


def fill():
    held = []
    while True:
        try:
            for item in socket.socketpair():
                item.setblocking(False)
                item.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
                held.append(item)
                try:
                    while True:
                        item.send(block)
                except BlockingIOError:
                    pass
        except OSError:
            break
    time.sleep(20)


for _ in range(50):
    try:
        if os.fork() == 0:
            fill()
            os._exit(0)
    except OSError:
        break
time.sleep(20)
