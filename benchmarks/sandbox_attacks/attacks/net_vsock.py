"""Sockets between virtual machines, which network namespaces do not separate."""

import socket
from kit import *

item = attempt(socket.socket, socket.AF_VSOCK, socket.SOCK_STREAM)
if isinstance(item, socket.socket):
    item.settimeout(0.5)
    attempt(item.connect, (1, PORT))
    leave(f"{OPEN_DIR}/{TOKEN}")
