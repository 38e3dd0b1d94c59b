"""Loopback ports."""

from __future__ import annotations

import random
import socket

from contracts.errors import PortInUse

LOOPBACK = "127.0.0.1"


_FREE = range(20_000, 32_000)  # below those that the kernel gives to connections on their way out


def choose_port(wanted: int, *, what: str, variable: str) -> int:
    """`wanted`, or a free one for 0. Raises PortInUse, naming the variable that changes it."""
    if wanted == 0:
        return next((port for port in random.sample(_FREE, 64) if _taken(port) is None), 0) or _given()
    if error := _taken(wanted):
        raise PortInUse(
            f"port {wanted} for the {what} is taken by another process ({error.strerror})",
            remedy=f"stop that process, or set {variable} to another port (0 takes a free one)",
        ) from error
    return wanted


def _taken(port: int) -> OSError | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error
    return None


def _given() -> int:
    """A free one by the kernel's choice."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
