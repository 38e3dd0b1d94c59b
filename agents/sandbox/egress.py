"""What may leave a sandbox: rules, and the strict reading of a proxy request they are applied to. See proxy.py."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from contracts.errors import UserInputError

MAX_HEAD_BYTES = 32 << 10
# Those of one connection; those by which some servers take another method, path, host or client than the request's;
# and, by any part of the name, those that may carry credentials.
_DROPPED_HEADER = re.compile(
    r"connection|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade"
    r"|forwarded|via|(x-)?(envoy|forwarded|host|http-host|original|real-ip|rewrite)(-.*)?|x-(http-)?method(-.*)?"
    r"|.*(auth|api-?key|cookie|credential|password|secret|session|signature|token).*"
)
_METHOD = re.compile(r"[A-Z]{1,16}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNICODE_ESCAPE = re.compile(r"%u", re.IGNORECASE)
_MAX_DECODINGS = 8
_MAX_LENGTH_DIGITS = 18
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, kw_only=True)
class EgressRule:
    """One allowed destination. `methods` with CONNECT opens tunnels to host and port; `path_prefix` holds for the rest.

    `private` permits addresses that are not public, for instance a mirror on the own network. Raises UserInputError.
    """

    host: str
    port: int = 443
    methods: tuple[str, ...] = ("CONNECT",)
    path_prefix: str = "/"
    private: bool = False

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host) or not all(_METHOD.fullmatch(method) for method in self.methods):
            raise UserInputError(
                f"no request can match the rule for {self.methods} at '{self.host}'",
                remedy="give a lower-case host name without port, and methods in capitals",
            )

    def allows(self, request: Request) -> bool:
        if (request.host, request.port) != (self.host, self.port) or request.method not in self.methods:
            return False
        return request.method == "CONNECT" or _is_below(request.path, self.path_prefix)


@dataclass(frozen=True, kw_only=True)
class EgressRecord:
    """One request as it was decided and, when allowed, how it went. `at` is the clock's time when it arrived."""

    at: float
    method: str = ""
    host: str = ""
    port: int = 0
    path: str = ""
    allowed: bool = False
    reason: str = "not understood"
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to a proxy. `body` is what of the body came with the head, `body_bytes` its length as announced."""

    method: str
    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    body_bytes: int

    def head(self) -> bytes:
        """The head for the origin server, without credentials, for a single request."""
        host = self.host if self.port == 80 else f"{self.host}:{self.port}"
        lines = [f"{self.method} {self.path} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.headers if not _DROPPED_HEADER.fullmatch(name.lower())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Denied(Exception):
    """The request is not allowed or not understood; the text is told to the client and recorded."""


def read_request(client: socket.socket) -> Request:
    """Raises Denied for anything but a plain HTTP/1 proxy request, and OSError when the client is gone."""
    received = b""
    while b"\r\n\r\n" not in received:
        block = client.recv(MAX_HEAD_BYTES)
        received += block
        if not block or len(received) > MAX_HEAD_BYTES:
            raise Denied("no complete request head")
    head, _, rest = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target = _request_line(first)
    headers = tuple(_header(line) for line in lines)
    host, port, path = _target(method, target)
    body_bytes = 0 if method == "CONNECT" else _body_bytes(headers)
    body = rest if method == "CONNECT" else rest[:body_bytes]
    return Request(method=method, host=host, port=port, path=path, headers=headers, body=body, body_bytes=body_bytes)


def is_public(address: str) -> bool:
    """Whether an address lies in the public internet, also when it is an IPv4 address in IPv6 clothes."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if inner is not None:
            return inner.is_global
        if found in _NAT64:
            return False
    return found.is_global and not found.is_multicast


def _request_line(line: str) -> tuple[str, str]:
    words = line.split(" ")
    if len(words) != 3 or not _METHOD.fullmatch(words[0]) or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise Denied("not an HTTP/1 request line")
    return words[0], words[1]


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name) or any(character in value for character in "\r\n\0"):
        raise Denied("not an HTTP header line")
    return name, value.strip()


def _target(method: str, target: str) -> tuple[str, int, str]:
    if any(ord(character) <= 32 or ord(character) >= 127 for character in target):
        raise Denied("control character in the request target")
    try:
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise Denied(f"not a URL: {error}") from error
    if not _HOST.fullmatch(host) or parts.username is not None:
        raise Denied("no plain host name")
    if method == "CONNECT":
        if port is None or parts.path or parts.query:
            raise Denied("CONNECT needs host:port")
        return host, port, ""
    if parts.scheme != "http":
        raise Denied("a proxy request needs an http:// URL")
    return host, port or 80, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _body_bytes(headers: tuple[tuple[str, str], ...]) -> int:
    names = [name.lower() for name, _ in headers]
    if "transfer-encoding" in names or names.count("content-length") > 1:
        raise Denied("a body needs one Content-Length and no Transfer-Encoding")
    length = next((value for name, value in headers if name.lower() == "content-length"), "0")
    if not length.isascii() or not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS:
        raise Denied("Content-Length is no usable number")
    return int(length)


def _is_below(path: str, prefix: str) -> bool:
    """Whether the path starts with the prefix, however a server may decode or normalise it."""
    plain = path.partition("?")[0]
    for _ in range(_MAX_DECODINGS):
        if not _says_where(plain):
            return False
        try:
            decoded = unquote(plain, errors="strict")
        except UnicodeDecodeError:  # perhaps a dot or slash in more bytes than it needs, which some servers accept
            return False
        if plain == decoded:
            return path.startswith(prefix)
        plain = decoded
    return False


def _says_where(path: str) -> bool:
    """Whether a path, once decoded, leads nowhere but down, for a server that knows more signs for dots and slashes."""
    text = unicodedata.normalize("NFKC", path).replace("\\", "/")
    parts = [part.partition(";")[0] for part in text.split("/")]  # some servers drop what follows a semicolon
    odd = any(ord(character) < ord(" ") or character == "\x7f" for character in text)
    return not odd and not _UNICODE_ESCAPE.search(text) and not any(part.strip() in (".", "..") for part in parts)
