"""`lathe up`, `down`, `doctor`."""

from __future__ import annotations

import typer

from control_plane.cli.session import Json, console, notes, print_json, settings


def up(as_json: Json = False) -> None:
    """Start database, API, worker and page in the background; prints the address."""
    from control_plane.services import cluster

    terminal = notes()
    addresses = cluster.up(settings(), lambda what: terminal.print(f"starting {what} ...", markup=False))
    if as_json:
        print_json(addresses)
        return
    console().print(addresses.url, markup=False, soft_wrap=True)
    terminal.print("have runs watched as they arrive with: lathe schedule watch")
    terminal.print("stop it with: lathe down")


def down(as_json: Json = False) -> None:
    """Stop what `lathe up` started."""
    from control_plane.services import cluster

    stopped = cluster.down(settings())
    if as_json:
        print_json({"stopped": stopped})
        return
    notes().print("stopped: " + ", ".join(stopped) if stopped else "nothing was running", markup=False)


def doctor(as_json: Json = False) -> None:
    """Check everything Lathe needs and name the remedy of each fault."""
    from control_plane.doctor import Check, examine

    marks = {True: "[green]ok[/]  ", False: "[red]bad[/] ", None: "note"}
    out, checks = console(), list[Check]()
    for check in examine(settings()):
        checks.append(check)
        if not as_json:
            out.print(f"{marks[check.ok]} {check.name}: ", end="")
            out.print(check.detail, markup=False)
            if check.remedy:
                out.print(f"       remedy: {check.remedy}", markup=False)
    if as_json:
        print_json(checks)
    if any(check.ok is False for check in checks):
        raise typer.Exit(3)
