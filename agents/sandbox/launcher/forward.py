"""Inside a sandbox: carries connections from a loopback port to the egress proxy's unix socket.

Most programs know a proxy by HTTP_PROXY and speak TCP only. The forwarder runs inside, with no more rights than the
command (which may kill it and then has no network at all); what may pass is decided outside, by the proxy.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from typing import NoReturn

PORT = 3128
_BLOCK_BYTES = 1 << 16


def listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", PORT), backlog=64)


def start(listener: socket.socket, target: str) -> None:
    """Forks the forwarder, which holds nothing but `listener`, and closes it in the caller."""
    if os.fork() > 0:
        listener.close()
        return
    os.dup2(0, 2)  # what goes wrong here is for nobody's log
    os.closerange(3, listener.fileno())
    os.closerange(listener.fileno() + 1, 1 << 30)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        # Suppressed: a connection that broke off, or no process left for it.
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            if os.fork() == 0:
                listener.close()
                _carry(connection, target)


def _carry(connection: socket.socket, target: str) -> NoReturn:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as outside:
        outside.connect(target)
        _pump(connection, outside)
    os._exit(0)


def _pump(left: socket.socket, right: socket.socket) -> None:
    """Copies both ways until both sides have finished sending."""
    other = {left: right, right: left}
    sending = {left, right}
    while sending:
        for source in select.select(list(sending), [], [])[0]:
            block = source.recv(_BLOCK_BYTES)
            if block:
                other[source].sendall(block)
            else:
                sending.discard(source)
                other[source].shutdown(socket.SHUT_WR)
