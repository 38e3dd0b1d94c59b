"""Requests at a fixed rate over kept connections, written by hand: a client library would take the API's CPU.

Open loop: a request is due at its time whether or not earlier ones were answered, and its latency counts from then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_CONNECTIONS = 48
_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request; `name` groups it with its like."""

    name: str
    path: str
    token: str
    body: Any = None
    expected: tuple[int, ...] = (200,)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """`latency_s` from when it was due; `error` is "" when the status was an expected one."""

    name: str
    latency_s: float
    error: str


class _Connection:
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, ask: Ask) -> tuple[int, bytes]:
        """(status, body). Raises OSError, EOFError or ValueError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=2**22)
        reader, writer = self._streams
        writer.write(self._encode(ask))
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        return int(lines[0].split(" ")[1]), body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def _encode(self, ask: Ask) -> bytes:
        head = f"{'GET' if ask.body is None else 'POST'} {ask.path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
        head += f"Authorization: Bearer {ask.token}\r\n"
        if ask.body is None:
            return f"{head}\r\n".encode()
        body = json.dumps(ask.body).encode()
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def fire(host: str, port: int, asks: Sequence[Ask], per_second: float) -> list[Answered]:
    """All of `asks`, evenly spaced, the first one second from now."""
    loop = asyncio.get_running_loop()
    begin = loop.time() + 1.0
    waiting: asyncio.Queue[tuple[float, Ask] | None] = asyncio.Queue()
    answers: list[Answered] = []

    async def serve() -> None:
        connection = _Connection(host, port)
        while (job := await waiting.get()) is not None:
            due, ask = job
            answers.append(await _answer(connection, ask, due))
        connection.close()

    servers = [asyncio.create_task(serve()) for _ in range(_CONNECTIONS)]
    for number, ask in enumerate(asks):
        due = begin + number / per_second
        await asyncio.sleep(max(0.0, due - loop.time()))
        waiting.put_nowait((due, ask))
    for _ in servers:
        waiting.put_nowait(None)
    await asyncio.gather(*servers)
    return answers


async def _answer(connection: _Connection, ask: Ask, due: float) -> Answered:
    loop = asyncio.get_running_loop()
    error = ""
    try:
        status, body = await asyncio.wait_for(connection.exchange(ask), _TIMEOUT_S)
        if status not in ask.expected:
            error = f"{status}: {body[:200].decode(errors='replace')}"
    except (OSError, EOFError, ValueError, TimeoutError) as fault:
        error = f"{type(fault).__name__}: {fault}"
        connection.close()
    return Answered(name=ask.name, latency_s=loop.time() - due, error=error)


async def listen(host: str, port: int, token: str, stop: asyncio.Event) -> int:
    """Keep the live feed open until `stop`; returns how many messages came."""
    reader, writer = await asyncio.open_connection(host, port)
    request = f"GET /api/v1/events HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(request.encode())
    count = 0
    while not stop.is_set():
        with suppress(TimeoutError):
            line = await asyncio.wait_for(reader.readline(), 0.5)
            count += line.startswith(b"event:")
    writer.close()
    return count
