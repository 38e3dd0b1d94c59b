"""Headers by which some servers take another method, path or host than those the proxy allowed."""

# proxy: yes
import socket
from kit import *

for line in (
    "X-HTTP-Method-Override: DELETE",
    "X-HTTP-Method: DELETE",
    "X-Method-Override: DELETE",
    "X-Original-URL: /secret",
    "X-Rewrite-URL: /secret",
    "X-Forwarded-Host: other",
    "X-Forwarded-Prefix: /secret",
    "x-host: other",
    "X-Real-IP: 127.0.0.1",
    "Forwarded: for=127.0.0.1;host=other",
):
    item = socket.create_connection(("127.0.0.1", 3128), timeout=2)
    item.sendall(f"GET http://localhost:{WEB_PORT}/ok/x HTTP/1.1\r\n{line}\r\n\r\n".encode())
    attempt(lambda: print(item.recv(60)))
