"""The proxy's own socket: garbage, descriptors, a flood of connections, and putting another in its place."""

# proxy: yes
import socket
from kit import *

path = "/run/egress.sock"
for junk in (
    b"",
    b"\x00" * 100,
    b"GET",
    b"A" * 100000,
    b"\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\n\r\n",
    b"CONNECT :0 HTTP/1.1\r\n\r\n",
    b"CONNECT a:99999999 HTTP/1.1\r\n\r\n",
    b"GET http://a:x/ HTTP/1.1\r\n\r\n",
):
    item = socket.socket(socket.AF_UNIX)
    attempt(item.connect, path)
    attempt(item.sendall, junk)
    attempt(socket.send_fds, item, [b"x"], [0, 1, 2])
held = []
for _ in range(110):
    item = socket.socket(socket.AF_UNIX)
    if isinstance(attempt(item.connect, path), Exception):
        break
    held.append(item)
attempt(os.unlink, path)
attempt(os.rename, path, "/run/x")
attempt(os.chmod, path, 0o777)
attempt(socket.socket(socket.AF_UNIX).bind, path)
