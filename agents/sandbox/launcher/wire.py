"""Messages between the caller and the supervisor of one command: a length, JSON, then raw bytes.

Both ends are ours and trusted; nothing a command prints is parsed, it travels as raw bytes behind the JSON.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

_LENGTH = struct.Struct("=I")


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """`protocol.Limits`, resolved. `min_free_bytes`: below this much free disk space the command is ended."""

    wall_s: float
    cpu_s: int
    memory_bytes: int
    processes: int
    open_files: int
    file_bytes: int
    disk_bytes: int
    files: int
    scratch_bytes: int
    output_bytes: int
    min_free_bytes: int


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command for a supervisor. Layers are names below the store's folder, lower ones with the top first.

    `uid` is what the code runs as: the caller's own, or, as root, another one. `mounts` are (source, path inside).
    `proxy` is the path of the egress proxy's socket, or empty.
    """

    argv: list[str]
    env: dict[str, str]
    lowers: list[str]
    upper: str
    mounts: list[tuple[str, str]]
    proxy: str
    uid: int
    bounds: Bounds


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a supervisor saw. `refused_stage` is set when the kernel refused a piece of the isolation: nothing ran.

    `killed` is empty or the limit that ended the command; `status` is the command's wait status, or None when unknown.
    """

    refused_stage: str = ""
    refused_errno: int = 0
    refused_what: str = ""
    killed: str = ""
    status: int | None = None
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0


def send(connection: socket.socket, head: Job | Report, *bodies: bytes) -> None:
    text = json.dumps({"head": head, "bodies": [len(body) for body in bodies]}, default=vars).encode()
    connection.sendall(_LENGTH.pack(len(text)) + text)
    for body in filter(None, bodies):
        connection.sendall(body)


def receive_job(connection: socket.socket) -> tuple[Job, bytes]:
    """The job and its standard input. Raises ConnectionError when the caller is gone."""
    head, (stdin,) = _receive(connection)
    bounds = Bounds(**head.pop("bounds"))
    mounts = [(source, target) for source, target in head.pop("mounts")]
    return Job(bounds=bounds, mounts=mounts, **head), stdin


def receive_report(connection: socket.socket) -> tuple[Report, bytes, bytes]:
    """The report, stdout and stderr. Raises ConnectionError when the supervisor died."""
    head, (stdout, stderr) = _receive(connection)
    return Report(**head), stdout, stderr


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[bytes]]:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    message = json.loads(_exactly(connection, length))
    return message["head"], [_exactly(connection, size) for size in message["bodies"]]


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the other end is gone")
        parts += part
    return bytes(parts)
