"""Loopback ports."""

from __future__ import annotations

import socket

from contracts.errors import PortInUse

LOOPBACK = "127.0.0.1"


def choose_port(wanted: int, *, what: str, variable: str) -> int:
    """`wanted`, or a free one for 0. Raises PortInUse, naming the variable that changes it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted))
        except OSError as error:
            raise PortInUse(
                f"port {wanted} for the {what} is taken by another process ({error.strerror})",
                remedy=f"stop that process, or set {variable} to another port (0 takes a free one)",
            ) from error
        port: int = probe.getsockname()[1]
        return port
