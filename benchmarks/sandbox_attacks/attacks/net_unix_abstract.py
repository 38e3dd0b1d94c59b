"""A unix socket without a path, which only the network namespace separates."""

# control: yes
import socket
from kit import *

attempt(lambda: socket.socket(socket.AF_UNIX).connect("\0" + ABSTRACT_SOCKET))
