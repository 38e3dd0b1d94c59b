"""`lathe config`: what was declared, what was used, what changed, what did not scale."""

from __future__ import annotations

from typing import Annotated

import typer

from control_plane.cli.session import Json, opened, print_json, print_table

app = typer.Typer(help="Configuration along a run: declared, effective, changed, not scaled.", no_args_is_help=True)
_PLACE = "RUN, RUN#SEGMENT, RUN@STEP, or RUN#SEGMENT@STEP."
Place = Annotated[str, typer.Argument(help=_PLACE)]


@app.command()
def show(place: Place, as_json: Json = False) -> None:
    """Show what was in force."""
    with opened() as lathe:
        found = lathe.store.config.at(place)
        print_json(found) if as_json else print_table(("field", "value"), sorted(found.items()), empty="No field.")


@app.command()
def diff(before: Place, after: Place, as_json: Json = False) -> None:
    """Compare two runs, two segments, or two steps of one run."""
    with opened() as lathe:
        found = lathe.store.config.diff(before, after)
        rows = [(each.key, each.before, "->", each.after, each.status) for each in found]
        columns = ("field", "before", "", "after", "")
        print_json(found) if as_json else print_table(columns, rows, empty="No difference.")


@app.command()
def changes(run: Annotated[str, typer.Argument(help="Run id.")], as_json: Json = False) -> None:
    """Show what changed within a run, by step."""
    with opened() as lathe:
        found = lathe.store.config.changes(run)
        rows = [(c.step, c.segment, c.source, c.change.key, c.change.before, "->", c.change.after) for c in found]
        columns = ("step", "segment", "", "field", "before", "", "after")
        print_json(found) if as_json else print_table(columns, rows, empty="Nothing changed.")


@app.command()
def check(
    place: Place,
    against: Annotated[
        list[str] | None, typer.Option(help="Runs of other sizes, the nearest last: what did not scale?")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show fields used otherwise than declared, and, against smaller runs, values that did not scale."""
    with opened() as lathe:
        used = lathe.store.config.mismatches(place)
        behind = lathe.store.config.not_scaled(place, against or [])
        if as_json:
            print_json({"mismatches": used, "not_scaled": behind})
            return
        rows = [(each.key, each.declared, each.effective, each.step) for each in used]
        print_table(("field", "declared", "used", "since step"), rows, empty="Everything was used as declared.")
        if against:
            late = [(each.key, each.value, each.expected, each.basis) for each in behind]
            print_table(("field", "value", "expected", "because"), late, empty="Everything scaled.")
