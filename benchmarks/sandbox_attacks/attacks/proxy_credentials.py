"""Carries credentials to the allowed host, under the names that services give them."""

# proxy: yes
import socket
from kit import *

for name in (
    "Authorization",
    "COOKIE",
    "X-Api-Key",
    "Api-Key",
    "X-Goog-Api-Key",
    "X-Auth-Token",
    "Private-Token",
    "X-Amz-Security-Token",
    "X-Client-Secret",
    "Proxy-Authorization",
    "Authorization ",
):
    item = socket.create_connection(("127.0.0.1", 3128), timeout=2)
    item.sendall(f"GET http://localhost:{WEB_PORT}/ok/x HTTP/1.1\r\n{name}: {TOKEN}\r\n\r\n".encode())
    attempt(lambda: print(item.recv(60)))
