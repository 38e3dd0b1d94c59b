"""What commands share: the global options, an open Lathe, and output for people or programs."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import UserInputError
from contracts.events import Scalar

if TYPE_CHECKING:
    from rich.console import Console

    from context_store.records import Activity
    from control_plane.settings import Settings
    from control_plane.wiring import Lathe


@dataclass
class Globals:
    """Options that stand before the command."""

    home: Path | None = None
    debug: bool = False


GLOBALS = Globals()
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")]


def settings() -> Settings:
    """Settings of this invocation, with logging configured."""
    from control_plane.logging import configure_logging
    from control_plane.settings import load_settings

    loaded = load_settings(GLOBALS.home)
    configure_logging(loaded.log_level, as_json=loaded.log_json)
    return loaded


@contextmanager
def opened() -> Iterator[Lathe]:
    """An open Lathe with everything loaded that lies in the run folders."""
    import time

    from control_plane.wiring import Lathe

    with Lathe.open(settings()) as lathe:
        lathe.shipper.catch_up(time.time())
        yield lathe


def print_json(value: Any) -> None:
    """One line on standard output."""
    from control_plane.encoding import dumps

    typer.echo(dumps(value))


def console() -> Console:
    """Standard output for people."""
    from rich.console import Console

    return Console(highlight=False)


def notes() -> Console:
    """Standard error: progress and hints, which never mix with results."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """A plain table, or the sentence `empty`."""
    from rich.table import Table

    if not rows:
        console().print(empty, markup=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console().print(table, markup=False)


def when(unix_s: float) -> str:
    """Local time to the second."""
    return datetime.datetime.fromtimestamp(unix_s).strftime("%Y-%m-%d %H:%M:%S")


def feed_printer() -> Callable[[Activity], None]:
    """Prints messages of the live feed on standard error as they come."""
    terminal = notes()

    def show(activity: Activity) -> None:
        style = {"finding": "bold", "approval": "bold yellow"}.get(activity.kind, "")
        clock = datetime.datetime.fromtimestamp(activity.at).strftime("%H:%M:%S")
        terminal.print(f"{clock}  {activity.text}", style=style, markup=False, soft_wrap=not terminal.is_terminal)

    return show


def parse_overrides(assignments: Sequence[str]) -> dict[str, Scalar]:
    """`a.b=0.1` pairs; numbers, true, false and null are read as such. Raises UserInputError."""
    import json

    overrides: dict[str, Scalar] = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key:
            raise UserInputError(f"--set {assignment}: no field and value", remedy="write --set section.field=value")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        overrides[key.strip()] = value if isinstance(value, str | int | float | bool | None) else text
    return overrides
