"""Pipes, sockets and devices that would hang or leak when somebody copies the workspace."""

import socket
from kit import *

os.mkfifo("pipe")
os.makedirs("d")
os.mkfifo("d/pipe")
socket.socket(socket.AF_UNIX).bind("sock")
attempt(os.symlink, "/dev/zero", "zero")
attempt(os.symlink, "/proc/self/environ", "environ")
attempt(os.symlink, "pipe", "to-pipe")
os.symlink("loop-b", "loop-a")
os.symlink("loop-a", "loop-b")
