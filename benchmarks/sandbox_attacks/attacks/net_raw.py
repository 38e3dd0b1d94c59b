"""Raw and packet sockets, pings, and the odd families."""

import socket
from kit import *

for family, kind, protocol in (
    (socket.AF_INET, socket.SOCK_RAW, 1),
    (socket.AF_INET, socket.SOCK_RAW, 255),
    (17, socket.SOCK_RAW, 0x0300),
    (socket.AF_INET, socket.SOCK_DGRAM, 1),
    (38, socket.SOCK_SEQPACKET, 0),
    (31, socket.SOCK_RAW, 0),
    (44, socket.SOCK_RAW, 0),
    (16, socket.SOCK_RAW, 15),
    (16, socket.SOCK_RAW, 9),
    (16, socket.SOCK_RAW, 12),
):
    item = attempt(socket.socket, family, kind, protocol)
    if isinstance(item, socket.socket):
        for address in ADDRESSES:
            attempt(item.sendto, TOKEN.encode(), (address, 0))
