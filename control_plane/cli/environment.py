"""`lathe environment`: packages, driver, hosts and ranks of a run by step."""

from __future__ import annotations

from typing import Annotated

import typer

from control_plane.cli.session import Json, console, opened, parse_overrides, print_json, print_table

app = typer.Typer(help="Packages, driver, hosts and ranks of a run by step.", no_args_is_help=True)
Run = Annotated[str, typer.Argument(help="Run id.")]


@app.command()
def show(
    run: Run,
    step: Annotated[int | None, typer.Option(help="In force at this step (default: the end).")] = None,
    as_json: Json = False,
) -> None:
    """Show the environment in force."""
    with opened() as lathe:
        found = lathe.store.environment.at(run, step)
        if as_json:
            print_json(found)
            return
        print_table(("fact", "value"), list(found.facts.items()), empty="Nothing is known.")
        ranks = [(each.rank, each.host, each.device) for each in found.ranks]
        print_table(("rank", "host", "device"), ranks, empty="Where the ranks ran is not known.")


@app.command()
def record(
    run: Run,
    step: Annotated[int, typer.Option(help="From which step on it holds.")],
    facts: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, for instance rank.3.host=node-7; repeat it.")
    ] = None,
    this_machine: Annotated[bool, typer.Option("--this-machine", help="All packages and devices of here.")] = False,
    as_json: Json = False,
) -> None:
    """Record facts of a training that does not log them itself."""
    from context_store import machine

    found = (machine.this_machine() if this_machine else {}) | parse_overrides(facts or [])
    with opened() as lathe:
        num_changed = lathe.store.environment.record(run, step, found)
        print_json({"changed": num_changed}) if as_json else console().print(f"{num_changed} facts changed")
