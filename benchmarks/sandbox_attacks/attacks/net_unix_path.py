"""Unix sockets outside by their paths: the judge's, and those of well-known services."""

# control: yes
import glob, socket
from kit import *

paths = [UNIX_SOCKET, f"../../..{UNIX_SOCKET}", f"/proc/{VICTIM}/root{UNIX_SOCKET}"]
for path in paths:
    attempt(lambda: socket.socket(socket.AF_UNIX).connect(path))
