"""`lathe mcp`: the store's tools for any client of the Model Context Protocol."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import NotPermitted
from contracts.team import TeamRole
from control_plane.cli.session import notes, opened

if TYPE_CHECKING:
    from context_store.records import Principal
    from control_plane.wiring import Lathe


def mcp(
    http: Annotated[
        int | None, typer.Option(help="Serve streamable HTTP on this port of loopback (default: standard input).")
    ] = None,
    role: Annotated[
        TeamRole | None, typer.Option(help="Role of a team whose tools alone are given (default: all tools).")
    ] = None,
) -> None:
    """Let an MCP client query the store and file proposals; only people approve, elsewhere.

    Over standard input it speaks for the token in LATHE_MCP_TOKEN, without one for a viewer. Over HTTP every request
    brings its token.
    """
    from agents.mcp_server import McpTools, caller_of, http_app, serve_stdio
    from control_plane.chat import open_case_of

    with opened() as lathe:
        check = lathe.store.tokens.check
        if http is None:
            _of_settings(lathe)  # refuse a wrong token at once
        caller = caller_of(check) if http is not None else lambda _: _of_settings(lathe)
        tools = McpTools(
            lathe.store,
            caller,
            open_case=lambda run_id: open_case_of(lathe.store, run_id, time.time()),
            clock=time.time,
            version=version("lathe"),
            team_role=role,
        )
        if http is None:
            serve_stdio(tools.server())
            return
        _serve_http(http_app(tools.server(), check), http)


def _of_settings(lathe: Lathe) -> Principal:
    """Raises NotPermitted for a token that opens nothing."""
    from context_store.records import Principal
    from contracts.enums import Role

    secret = lathe.settings.mcp_token
    if not secret:
        return Principal(name=lathe.settings.actor, role=Role.VIEWER)
    principal = lathe.store.tokens.check(secret)
    if principal is None:
        raise NotPermitted("LATHE_MCP_TOKEN is no valid token", remedy="make one: lathe tokens create NAME")
    return principal


def _serve_http(app: Any, port: int) -> None:
    """On loopback, until it is interrupted."""
    import uvicorn

    from agents.mcp_server.ways import PATH
    from control_plane.services.ports import LOOPBACK

    notes().print(f"http://{LOOPBACK}:{port}{PATH}", markup=False)
    uvicorn.run(app, host=LOOPBACK, port=port, log_level="warning")
