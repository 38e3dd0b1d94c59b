"""What every request passes first: only known names as Host (against DNS rebinding), and a limited body."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.api.problems import problem

MAX_BODY_BYTES = 256 * 1024
MAX_INGEST_BYTES = 8 * 1024 * 1024
_INGEST = "/api/v1/ingest/"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


class Guards:
    """ASGI middleware; answers with a problem instead of passing the request on.

    `hosts`: names besides those of loopback by which a reverse proxy passes requests on. The size of the body that
    came is left in the request's state as `body_bytes`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._hosts = _LOOPBACK | {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length, host = headers.get("content-length", "0"), headers.get("host", "").lower()
        if host.rpartition(":")[0] not in self._hosts and host not in self._hosts:
            remedy = "use the address that `lathe up` printed, or name this host in LATHE_API_HOSTS"
            await problem(HTTPStatus.MISDIRECTED_REQUEST, "unknown host", remedy)(scope, receive, send)
            return
        limit = MAX_INGEST_BYTES if scope["path"].startswith(_INGEST) else MAX_BODY_BYTES
        if not (length.isascii() and length.isdigit()) or int(length) > limit:
            await too_large(limit)(scope, receive, send)
        else:
            await self._limited(scope, receive, send, limit)

    async def _limited(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        """Read the body before the app does; it is small by now or refused."""
        messages: list[Message] = []
        size = 0
        while not messages or messages[-1].get("more_body", False):
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
            if size > limit:
                await too_large(limit)(scope, receive, send)
                return
        scope.setdefault("state", {})["body_bytes"] = size
        read = iter(messages)

        async def replay() -> Message:
            return next(read, None) or await receive()

        await self._app(scope, replay, send)


def too_large(limit: int, what: str = "the body is") -> JSONResponse:
    """The refusal of a body of more than `limit` bytes."""
    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{what} larger than {limit} bytes", "send less at once")
