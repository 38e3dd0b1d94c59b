"""Carries credentials to the allowed host."""

# proxy: yes
import socket
from kit import *

for name in ("Authorization", "authorization", "COOKIE", "Cookie", "X-Api-Key", "Authorization "):
    item = socket.create_connection(("127.0.0.1", 3128), timeout=2)
    item.sendall(f"GET http://localhost:{WEB_PORT}/ok/x HTTP/1.1\r\n{name}: {TOKEN}\r\n\r\n".encode())
    attempt(lambda: print(item.recv(60)))
