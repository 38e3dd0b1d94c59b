"""`lathe demo`: the main job, from an empty folder to a verified fix and a report.

The work is in `attempt` and `stages`, which load slowly; what is wrong with the options is said at once.
"""

from __future__ import annotations

import sys
from pathlib import Path

from contracts.errors import UserInputError
from control_plane.demo.faults import FAULTS, HEALTHY, find_fault

_INTERRUPTED = 130


def main(
    *,
    fault: str | None,
    list_faults: bool,
    seed: int,
    healthy: bool,
    yes: bool,
    as_json: bool,
    no_ui: bool,
    home: Path | None,
) -> None:
    """Run the demo, or go on with it. Raises LatheError; exits with status 130 when it was interrupted."""
    if list_faults:
        sys.stdout.write("".join(f"{each.name}\n" for each in FAULTS))
        return
    if healthy and fault:
        raise UserInputError("--healthy plants no fault, so --fault makes no sense", remedy="leave out one of them")
    planted = HEALTHY if healthy else find_fault(fault or FAULTS[0].name)
    from control_plane.demo.attempt import run
    from control_plane.demo.screen import Screen
    from control_plane.demo.stages import Choice

    choice = Choice(fault=planted, seed=seed, yes=yes, with_page=not no_ui)
    screen = Screen()
    try:
        outcome = run(choice, home, screen)
    except KeyboardInterrupt:
        screen.say("\nInterrupted; nothing is lost. The same command goes on.", "bold")
        sys.exit(_INTERRUPTED)
    if as_json:
        sys.stdout.write(outcome + "\n")
