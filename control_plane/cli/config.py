"""`lathe config`: what was declared, what was used, what changed, what did not scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.session import Json, console, opened, print_json, print_table

if TYPE_CHECKING:
    from context_store.config_facts import Usage

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
        usage = lathe.store.config.usage(place)
        behind = lathe.store.config.not_scaled(place, against or [])
        if as_json:
            print_json({**vars(usage), "not_scaled": behind})
            return
        rows = [(each.key, each.declared, each.effective, each.step) for each in usage.mismatches]
        print_table(("field", "declared", "used", "since step"), rows, empty=_without_mismatch(usage))
        if rows and usage.num_recorded < usage.num_declared:
            unknown = usage.num_declared - usage.num_recorded
            console().print(f"how {unknown} of {usage.num_declared} declared fields were used: not recorded")
        if against:
            late = [(each.key, each.value, each.expected, each.basis) for each in behind]
            print_table(("field", "value", "expected", "because"), late, empty="Everything scaled.")


def _without_mismatch(usage: Usage) -> str:
    """Silence of the log is no agreement."""
    unknown = usage.num_declared - usage.num_recorded
    if not usage.num_recorded:
        return f"How the {usage.num_declared} declared fields were used: not recorded."
    rest = f"; {unknown} others: not recorded" if unknown else ""
    return f"All {usage.num_recorded} fields whose use was recorded were used as declared{rest}."
