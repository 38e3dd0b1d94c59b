"""Asks the proxy for what no rule allows, in every spelling of this machine's address."""

# proxy: yes
# phases: 2
import http.client
from kit import *

names = [
    "127.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "0.0.0.0",
    "localhost.",
    "LOCALHOST",
    "127.0.0.1.nip.io",
    *ADDRESSES,
]
for name in names[PHASE - 1 :: 2]:
    for port in (PORT, WEB_PORT):
        for target, method in (
            (f"http://{name}:{port}/secret", "GET"),
            (f"http://localhost@{name}:{port}/ok/x", "GET"),
            (f"http://localhost:{WEB_PORT}@{name}:{port}/ok/x", "GET"),
            (f"{name}:{port}", "CONNECT"),
            (f"http://localhost:{port}/ok/x", "POST"),
            (f"https://{name}:{port}/", "GET"),
            (f"//{name}:{port}/ok/", "GET"),
            (f"http://localhost:{WEB_PORT}\\@{name}:{port}/ok/", "GET"),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", 3128, timeout=1)

            def ask():
                connection.putrequest(method, target, skip_host=True)
                connection.endheaders()
                print(method, target, connection.getresponse().status)

            attempt(ask)
