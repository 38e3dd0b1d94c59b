"""How the MCP server is reached: standard input and output for one local client, streamable HTTP for others."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from context_store.records import Principal

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
_BEARER = "bearer "
Check = Callable[[str], Principal | None]


def serve_stdio(server: Server[Any]) -> None:
    """Until the client closes standard input."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


def http_app(server: Server[Any], check: Check) -> ASGIApp:
    """An ASGI app with the server at `/mcp`, for loopback names only; every request needs a token that `check` knows.

    Every request stands alone, so a token that is revoked opens nothing from then on.
    """
    return _Guarded(server.streamable_http_app(streamable_http_path=PATH, stateless_http=True), check)


def caller_of(check: Check) -> Callable[[Any], Principal | None]:
    """For whom an HTTP request speaks."""
    return lambda request: check(_secret(request.headers.get("authorization", "")))


class _Guarded:
    def __init__(self, app: ASGIApp, check: Check) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from anyio.to_thread import run_sync
        from starlette.datastructures import Headers
        from starlette.responses import JSONResponse

        if scope["type"] == "http":
            secret = _secret(Headers(scope=scope).get("authorization", ""))
            if await run_sync(self._check, secret) is None:
                problem = {
                    "error": "invalid_token",
                    "error_description": "send the header: Authorization: Bearer TOKEN",
                }
                headers = {"WWW-Authenticate": "Bearer"}
                await JSONResponse(problem, HTTPStatus.UNAUTHORIZED, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _secret(header: str) -> str:
    """What follows `Bearer `; "" otherwise."""
    return header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
