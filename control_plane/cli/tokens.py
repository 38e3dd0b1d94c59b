"""`lathe tokens`: who may call the API. Whoever can open LATHE_HOME is its admin."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.enums import Role
from control_plane.cli.session import Json, notes, opened, print_json, print_table, when

if TYPE_CHECKING:
    from context_store.records import Token

app = typer.Typer(help="Access tokens of the API.", no_args_is_help=True)
_DAY_S = 86400.0


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who or what uses it; it stands in the ledger beside what it does.")],
    role: Annotated[Role, typer.Option(help="What it may do; to log a training: researcher.")] = Role.RESEARCHER,
    days: Annotated[float | None, typer.Option(min=0, help="It ends after so many; without: when revoked.")] = None,
    as_json: Json = False,
) -> None:
    """Make a token and print its secret, which cannot be read again."""
    with opened() as lathe:
        expires_at = None if days is None else time.time() + days * _DAY_S
        secret = lathe.store.tokens.create(name, role, actor=lathe.settings.actor, expires_at=expires_at)
        token = lathe.store.tokens.find(secret)
        if as_json:
            print_json({"token": token, "secret": secret})
            return
        notes().print(f"token {token.id} for {name} ({role}); put it into LATHE_TOKEN there:", markup=False)
        typer.echo(secret)


@app.command("list")
def list_tokens(as_json: Json = False) -> None:
    """List tokens without their secrets, newest first."""
    with opened() as lathe:
        found = lathe.store.tokens.list()
        if as_json:
            print_json(found)
            return
        rows = [(each.id, each.name, each.role, each.created_by, when(each.created_at), _ends(each)) for each in found]
        print_table(("token", "name", "role", "made by", "at", "ends"), rows, empty="No tokens.")


@app.command()
def revoke(token: Annotated[int, typer.Argument(metavar="ID", help="As `list` shows.")], as_json: Json = False) -> None:
    """Let a token open nothing any more."""
    with opened() as lathe:
        revoked = lathe.store.tokens.revoke(token, lathe.settings.actor, time.time())
        print_json(revoked) if as_json else notes().print(f"token {token} of {revoked.name} is revoked", markup=False)


def _ends(token: Token) -> str:
    if token.revoked_at is not None:
        return f"revoked {when(token.revoked_at)}"
    return when(token.expires_at) if token.expires_at is not None else ""
