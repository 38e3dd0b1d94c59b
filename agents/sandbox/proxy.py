"""The only way from a sandbox to the network: an allow-list HTTP proxy on a unix socket (RC2-10.7 on one machine).

Plain HTTP is checked by host, port, method and path; headers that carry credentials are taken out; one request for each
connection, so that nothing can be smuggled behind it. CONNECT (HTTPS) is checked by host and port only: what is said
inside the tunnel is not seen. Names are resolved here, once, and an address that is not public (loopback, private,
link-local: a cloud's metadata service) is refused unless the rule says so. Every request, allowed or not, is recorded.

Not covered: an allowed host can be told anything that its rule lets through.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from agents.sandbox.egress import Denied, EgressRecord, EgressRule, Request, is_public, read_request
from contracts.errors import UserInputError

_BLOCK_BYTES = 1 << 16


@dataclass(kw_only=True)
class Traffic:
    """What passed on one connection, and how much may."""

    left_bytes: int
    sent_bytes: int = 0
    received_bytes: int = 0

    def send(self, target: socket.socket, block: bytes) -> None:
        """Sends what is already here, as much of it as may pass."""
        target.sendall(block[: self.left_bytes])
        self.sent_bytes += len(block[: self.left_bytes])
        self.left_bytes = max(0, self.left_bytes - len(block))

    def move(self, source: socket.socket, target: socket.socket, limit: int, *, outward: bool) -> bool:
        """Carries one block; False at the end or when nothing more may pass."""
        block = source.recv(min(_BLOCK_BYTES, self.left_bytes, limit)) if min(self.left_bytes, limit) > 0 else b""
        target.sendall(block)
        self.left_bytes -= len(block)
        if outward:
            self.sent_bytes += len(block)
        else:
            self.received_bytes += len(block)
        return bool(block)


class EgressProxy:
    """Serves on `socket_path` from `start` to `close`, a thread for each of at most `max_connections` connections.

    Whoever can reach `socket_path` can use it: put it in a folder that is yours alone. `record` is called from those
    threads. A connection ends after `max_bytes` both ways together, or `idle_s` of silence.
    """

    def __init__(
        self, socket_path: Path, rules: tuple[EgressRule, ...], *, record: Callable[[EgressRecord], None],
        clock: Callable[[], float], max_bytes: int = 64 << 20, idle_s: float = 30.0, max_connections: int = 32,
    ) -> None:  # fmt: skip
        self.socket_path = socket_path
        self._rules = rules
        self._record, self._clock = record, clock
        self._max_bytes, self._idle_s = max_bytes, idle_s
        self._slots = threading.BoundedSemaphore(max_connections)
        self._server: _Server | None = None

    def start(self) -> EgressProxy:
        """Raises UserInputError when the socket cannot be made."""
        try:
            self._server = _Server(str(self.socket_path), self._serve)
        except OSError as error:
            raise UserInputError(
                f"cannot listen at {self.socket_path}: {error}",
                remedy="name a file that does not exist yet, in a folder of yours, by less than 100 characters",
            ) from error
        os.chmod(self.socket_path, 0o666)  # noqa: S103  the sandbox has another user id; the folder keeps others out
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self.socket_path.unlink(missing_ok=True)

    def __enter__(self) -> EgressProxy:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(self._idle_s)
        record = EgressRecord(at=self._clock())
        if not self._slots.acquire(blocking=False):
            self._refuse(client, replace(record, reason="too many connections"))
            return
        try:
            self._answer(client, record)
        finally:
            self._slots.release()

    def _answer(self, client: socket.socket, record: EgressRecord) -> None:
        try:
            request = read_request(client)
            record = replace(record, method=request.method, host=request.host, port=request.port, path=request.path)
            if request.body_bytes > self._max_bytes:
                raise Denied("the body is larger than a connection may carry")
            upstream = self._connect(request)
        except Denied as denial:
            self._refuse(client, replace(record, reason=str(denial)))
            return
        except OSError as error:
            self._refuse(client, replace(record, reason=f"failed: {error}"))
            return
        traffic = Traffic(left_bytes=self._max_bytes)
        with upstream:
            reason = self._carry(client, upstream, request, traffic)
        self._record(
            replace(
                record, allowed=True, reason=reason,
                sent_bytes=traffic.sent_bytes, received_bytes=traffic.received_bytes,
            )
        )  # fmt: skip

    def _refuse(self, client: socket.socket, record: EgressRecord) -> None:
        self._record(record)
        body = f"{record.reason}\n".encode()
        head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        with contextlib.suppress(OSError):  # the client is gone
            client.sendall(head.encode() + body)

    def _connect(self, request: Request) -> socket.socket:
        """A connection to the request's host. Raises Denied, or OSError when the host cannot be reached."""
        rules = [rule for rule in self._rules if rule.allows(request)]
        if not rules:
            raise Denied(f"no rule allows {request.method} {request.host}:{request.port}{request.path}")
        found = [str(row[4][0]) for row in socket.getaddrinfo(request.host, request.port, type=socket.SOCK_STREAM)]
        usable = [address for address in found if is_public(address) or any(rule.private for rule in rules)]
        if not usable:
            raise Denied(f"{request.host} is at {found[0]}, which is not a public address")
        return socket.create_connection((usable[0], request.port), timeout=self._idle_s)

    def _carry(self, client: socket.socket, upstream: socket.socket, request: Request, traffic: Traffic) -> str:
        """Carries the allowed request and its answer; how it ended."""
        try:
            if request.method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                traffic.send(upstream, request.body)
                self._tunnel(client, upstream, traffic)
            else:
                upstream.sendall(request.head())
                traffic.send(upstream, request.body)
                while (left := request.body_bytes - traffic.sent_bytes) > 0:
                    if not traffic.move(client, upstream, left, outward=True):
                        break
                while traffic.move(upstream, client, _BLOCK_BYTES, outward=False):
                    pass
        except OSError as error:
            return f"broke off: {error}"
        return "cut off at the byte limit" if traffic.left_bytes <= 0 else "completed"

    def _tunnel(self, client: socket.socket, upstream: socket.socket, traffic: Traffic) -> None:
        ends = {client: upstream, upstream: client}
        open_ends = {client, upstream}
        while open_ends and (ready := select.select(list(open_ends), [], [], self._idle_s)[0]):
            for source in ready:
                if not traffic.move(source, ends[source], _BLOCK_BYTES, outward=source is client):
                    open_ends.discard(source)
                    ends[source].shutdown(socket.SHUT_WR)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: str, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        super().__init__(path, socketserver.BaseRequestHandler)

    def finish_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        self._serve(request)
