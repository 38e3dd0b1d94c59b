"""`lathe demo`: the main job on a project with a planted fault. The work is done in control_plane/demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.session import Json


def demo(
    fault: Annotated[str | None, typer.Option(help="Which fault to plant (see --list-faults).")] = None,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="Print the names, one a line.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of project and trainings.")] = 0,
    healthy: Annotated[bool, typer.Option("--healthy", help="Plant no fault: must end with nothing found.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the fix without asking.")] = False,
    no_ui: Annotated[bool, typer.Option("--no-ui", help="Do not start the page.")] = False,
    home: Annotated[Path | None, typer.Option(help="Folder of this demo (default: one per fault and seed).")] = None,
    as_json: Json = False,
) -> None:
    """A real training goes wrong; Lathe notices, proves why, asks you, fixes the run and remembers. No key needed."""
    from control_plane.demo.driver import main

    main(
        fault=fault,
        list_faults=list_faults,
        seed=seed,
        healthy=healthy,
        yes=yes,
        as_json=as_json,
        no_ui=no_ui,
        home=home,
    )
