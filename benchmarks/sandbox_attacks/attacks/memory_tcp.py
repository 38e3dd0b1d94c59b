"""TCP buffers that grew while the other end was reading, which then stops."""

import socket
from kit import *

block = b"x" * (1 << 20)
listener = socket.create_server(("127.0.0.1", 0))
held = []
for _ in range(10):
    if os.fork() == 0:
        break
for _ in range(55):
    try:
        one = socket.create_connection(listener.getsockname())
        two, _ = listener.accept()
    except OSError:
        break
    held += [one, two]
    one.setblocking(False)
    two.setblocking(False)
    for rounds in range(60):
        try:
            while True:
                one.send(block)
        except OSError:
            pass
        if rounds < 55:
            try:
                while two.recv(1 << 20):
                    pass
            except OSError:
                pass
import time

time.sleep(20)
