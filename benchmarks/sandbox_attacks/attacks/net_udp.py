"""UDP to every address of the machine, and to the broadcast and multicast addresses."""

# control: yes
import socket
from kit import *

for address in [*ADDRESSES, "255.255.255.255", "224.0.0.1", "ff02::1%lo"]:
    for family in (socket.AF_INET, socket.AF_INET6):
        item = socket.socket(family, socket.SOCK_DGRAM)
        attempt(item.setsockopt, socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        attempt(item.sendto, TOKEN.encode(), (address, PORT))
