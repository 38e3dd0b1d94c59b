"""Asks the allowed host for another by name: by the Host header, once and twice, and by what comes before an @."""

# proxy: yes
import socket
from kit import *

url = f"http://localhost:{WEB_PORT}/ok/x"
for head in (
    f"GET {url} HTTP/1.1\r\nHost: internal.example\r\n\r\n",
    f"GET {url} HTTP/1.1\r\nHost: localhost:{WEB_PORT}\r\nHost: internal.example\r\n\r\n",
    f"GET {url} HTTP/1.1\r\nhOsT:internal.example\r\nConnection: host\r\n\r\n",
    f"GET {url} HTTP/1.1\r\nX-A: b\r\n\tHost: internal.example\r\n\r\n",
    f"GET http://internal.example@localhost:{WEB_PORT}/ok/x HTTP/1.1\r\n\r\n",
    "GET /ok/x HTTP/1.1\r\nHost: internal.example\r\n\r\n",
    f"GET {url} HTTP/1.1\r\nHost: internal.example\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
):
    item = socket.create_connection(("127.0.0.1", 3128), timeout=2)
    item.sendall(head.encode())
    attempt(lambda: print(item.recv(60)))
