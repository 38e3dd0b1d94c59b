"""`lathe shares`: how much of the work agents did, by the ledger."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from control_plane.cli.session import Json, console, opened, print_json, print_table, when

_DAY_S = 86_400.0


def shares(
    days: Annotated[float, typer.Option(min=0.001, help="Of the last so many days.")] = 30.0, as_json: Json = False
) -> None:
    """Print which share of the ledger's steps and time agents have, and persons."""
    with opened() as lathe:
        now = time.time()
        found = lathe.store.ledger.shares(now - days * _DAY_S, now)
        both = {"agents_by_steps": found.agents_by_steps, "agents_by_time": found.agents_by_time}
        if as_json:
            print_json({**vars(found), **both})
            return
        rows = [
            (each.actor, "agent" if each.is_agent else "person", each.steps, f"{each.seconds:.0f}")
            for each in found.actors
        ]
        print_table(("actor", "", "steps", "seconds"), rows, empty="The ledger has no entries.")
        if found.begin is not None and found.end is not None:
            said = f"agents: {found.agents_by_steps:.0%} of the steps, {found.agents_by_time:.0%} of the time"
            console().print(f"{said}, {when(found.begin)} to {when(found.end)}", style="bold", markup=False)
            console().print(found.definition, markup=False)
