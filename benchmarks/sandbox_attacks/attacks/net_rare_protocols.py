"""Protocols nobody uses, for which the kernel would load a module: SCTP, DCCP, MPTCP, UDP-Lite, L2TP, SMC."""

import socket
from kit import *

made = 0
for family in (socket.AF_INET, socket.AF_INET6):
    for kind, protocol in ((1, 132), (5, 132), (6, 33), (1, 262), (2, 136), (2, 115), (1, 256)):
        try:
            item = socket.socket(family, kind, protocol)
        except OSError as error:
            print(family, protocol, error)
            continue
        made += 1
        for address in ADDRESSES:
            attempt(item.connect, (address, PORT))
print(made)
