"""Everything outside that an attack could talk to: it hears, and tells the judge."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
_VSOCK_LOCAL = 1
_CREDENTIALS = (b"token-", b"authorization:", b"cookie:", b"x-api-key:")
_OVERRIDES = re.compile(rb"\r\n(x-http-method|x-method|x-original|x-rewrite|x-forwarded|x-host|x-real-ip|forwarded)")


class Listeners:
    """TCP and UDP on every address, a unix socket with a path and one without, vsock, and a small web server.

    `heard` collects what came; for the web server only what the proxy's rule (GET below /ok/, no credentials, one
    request for each connection) should have stopped.
    """

    def __init__(self, folder: Path) -> None:
        self.heard: list[str] = []
        self.unix_path = folder / "outside.sock"
        self.abstract_name = f"lathe-outside-{os.getpid()}-{folder.name}"
        self._selector = selectors.DefaultSelector()
        self._closed = threading.Event()
        self._sockets: list[socket.socket] = []
        tcp = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port = int(tcp.getsockname()[1])
        udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp.bind(("", self.port))
        web = socket.create_server(("127.0.0.1", 0))
        self.web_port = int(web.getsockname()[1])
        self._add(tcp, self._accept("tcp"))
        self._add(udp, self._datagram)
        self._add(web, self._web)
        self._add(_unix(str(self.unix_path)), self._accept("unix socket"))
        self.unix_path.chmod(0o666)
        self._add(_unix("\0" + self.abstract_name), self._accept("abstract socket"))
        with contextlib.suppress(OSError):  # no vsock on this machine
            self._add(_vsock(self.port), self._accept("vsock"))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for item in self._sockets:
            item.close()

    def _add(self, item: socket.socket, handle: Callable[[socket.socket], None]) -> None:
        self._sockets.append(item)
        self._selector.register(item, selectors.EVENT_READ, handle)

    def _listen(self) -> None:
        while not self._closed.is_set():
            for key, _ in self._selector.select(0.05):
                with contextlib.suppress(OSError):
                    key.data(key.fileobj)

    def _accept(self, what: str) -> Callable[[socket.socket], None]:
        def accept(item: socket.socket) -> None:
            item.accept()[0].close()
            self.heard.append(f"{what} connection")

        return accept

    def _datagram(self, item: socket.socket) -> None:
        item.recv(2048)
        self.heard.append("udp datagram")

    def _web(self, item: socket.socket) -> None:
        connection, _ = item.accept()
        with connection:
            connection.settimeout(0.5)
            request = connection.recv(1 << 16)
            if not request:
                self.heard.append("web connection")
                return
            connection.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                request += connection.recv(1 << 16)
            self._judge_request(request)
            connection.sendall(_REPLY)

    def _judge_request(self, request: bytes) -> None:
        path = _as_lenient_servers_read(request.decode("latin-1").split(" ")[1])
        if not request.startswith(b"GET ") or not path.startswith("/ok/") or ".." in path:
            self.heard.append(f"web request {request[:80]!r}")
        if request.count(b" HTTP/1.") > 1:
            self.heard.append("two web requests in one")
        if any(text in request.lower() for text in _CREDENTIALS):
            self.heard.append("credentials through the proxy")
        if _OVERRIDES.search(request.lower()):
            self.heard.append("a header that overrides the request")
        if f"\r\nhost: localhost:{self.web_port}\r\n".encode() not in request.lower():
            self.heard.append("web request for another host")


def _as_lenient_servers_read(path: str) -> str:
    """Decoded twice; dots may have too many bytes, full width or another escape, and control signs between them."""
    for _ in range(2):
        path = re.sub("%c0%ae|%u002e", ".", path, flags=re.IGNORECASE)
        path = unicodedata.normalize("NFKC", unquote(path))
    return "".join(character for character in path if character >= " ")


def _unix(name: str) -> socket.socket:
    item = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    item.bind(name)
    item.listen(64)
    return item


def _vsock(port: int) -> socket.socket:
    item = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    item.bind((_VSOCK_LOCAL, port))
    item.listen(8)
    return item
