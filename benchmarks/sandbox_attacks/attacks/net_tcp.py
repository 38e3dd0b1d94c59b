"""TCP to every address of the machine and some beyond."""

# control: yes
import socket
from kit import *

for address in ADDRESSES:
    attempt(lambda: socket.create_connection((address, PORT), timeout=0.5))
    attempt(lambda: socket.create_connection((address, WEB_PORT), timeout=0.5))
