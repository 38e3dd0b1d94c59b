"""`lathe schedule`: what a worker does at intervals. Whoever can open LATHE_HOME is its admin."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.enums import Role, ScheduleAction
from control_plane.cli.session import Json, console, notes, opened, print_json, when

if TYPE_CHECKING:
    from context_store.records import Schedule

app = typer.Typer(help="What a worker (lathe up) does at intervals.", no_args_is_help=True)
_DAY_S, _HOUR_S = 86400.0, 3600.0
Reason = Annotated[str, typer.Option(help="Why; kept with the schedule and in the ledger.")]
Project = Annotated[str, typer.Option(help="Only of this project (its id).")]
Hours = Annotated[float, typer.Option(min=0.01, help="Hours between.")]


@app.command()
def watch(
    project: Project = "",
    every: Annotated[float, typer.Option(min=1, help="Seconds between two looks.")] = 30.0,
    reason: Reason = "watch runs as they arrive",
    as_json: Json = False,
) -> None:
    """Look at trainings as they arrive and open a case for what is found."""
    _set(ScheduleAction.WATCH, as_json, target=project, every_s=every, reason=reason)


@app.command()
def measure(
    project: Project = "",
    every: Annotated[float, typer.Option(min=1, help="Seconds between two looks.")] = 300.0,
    reason: Reason = "follow what runs can become",
    as_json: Json = False,
) -> None:
    """Measure the potential of trainings as their checkpoints arrive, ever more rarely, within the project's budget."""
    _set(ScheduleAction.MEASURE, as_json, target=project, every_s=every, reason=reason)


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Each backup becomes a new folder in it.")],
    every: Hours = 24.0,
    reason: Reason = "regular backup",
    as_json: Json = False,
) -> None:
    """Back the whole store up."""
    _set(ScheduleAction.BACKUP, as_json, target=str(folder.absolute()), every_s=every * _HOUR_S, reason=reason)


@app.command()
def expire(
    reason: Reason,
    older_than: Annotated[float, typer.Option(min=0.01, metavar="DAYS", help="Of runs that ended before that.")],
    project: Project = "",
    every: Hours = 24.0,
    as_json: Json = False,
) -> None:
    """Delete points of old runs; runs, configuration, timeline and cases stay."""
    age_s = older_than * _DAY_S
    _set(ScheduleAction.EXPIRE, as_json, target=project, every_s=every * _HOUR_S, older_than_s=age_s, reason=reason)


@app.command("list")
def list_schedules(
    every: Annotated[bool, typer.Option("--all", help="Those that were revoked, too.")] = False, as_json: Json = False
) -> None:
    """List what is done at intervals, by whom it was set, and what came of it last."""
    with opened() as lathe:
        found = lathe.store.schedules.list(in_force=not every)
        if as_json:
            print_json(found)
            return
        out = console()
        for each in found:
            out.print(f"{each.id}  {says(each)}", style="bold", markup=False)
            out.print(f"   set by {each.set_by}, {when(each.set_at)}: {each.reason}", markup=False)
            if each.last_at is not None:
                word = "" if each.last_ok else "failed: "
                out.print(f"   {when(each.last_at)}: {word}{each.last_message}", markup=False, soft_wrap=True)
            if each.revoked_at is not None:
                out.print(f"   revoked by {each.revoked_by}, {when(each.revoked_at)}", markup=False)
        if not found:
            out.print("Nothing is scheduled.")


@app.command()
def revoke(
    schedule: Annotated[int, typer.Argument(metavar="ID", help="As `list` shows.")],
    reason: Reason,
    as_json: Json = False,
) -> None:
    """End a schedule."""
    with opened() as lathe:
        actor = lathe.settings.actor
        revoked = lathe.store.schedules.revoke(schedule, actor, Role.ADMIN, reason, time.time())
        print_json(revoked) if as_json else notes().print(f"schedule {schedule} is revoked", markup=False)


def says(schedule: Schedule) -> str:
    """What is done, how often, in a few words."""
    where = f" {schedule.target}" if schedule.target else ""
    age = f", older than {schedule.older_than_s / _DAY_S:g} days" if schedule.older_than_s else ""
    return f"{schedule.action}{where}{age}, every {schedule.every_s:g} s"


def _set(action: ScheduleAction, as_json: bool, **wish: Any) -> None:
    with opened() as lathe:
        actor = lathe.settings.actor
        made = lathe.store.schedules.set(action, **wish, actor=actor, role=Role.ADMIN, at=time.time())
        print_json(made) if as_json else notes().print(f"schedule {made.id}: {says(made)}", markup=False)
