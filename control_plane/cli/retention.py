"""`lathe delete`, `expire`: runs and points that are no longer wanted; always counted first."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, notes, opened, print_json, print_table

if TYPE_CHECKING:
    from context_store.records import Removal
    from control_plane.wiring import Lathe

_DAY_S = 86400.0
_MIB = 2**20
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Remove = Callable[[str, bool], "Removal"]  # run id, only count


def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run ids.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete runs with all their points; refused for runs that investigations rest on. Run folders stay on disk."""
    with opened() as lathe:
        retention = lathe.store.retention

        def remove(run: str, only_count: bool) -> Removal:
            return retention.delete_run(run, dry_run=only_count)

        _remove(lathe, runs, remove, "run.deleted", dry_run=dry_run, yes=yes, as_json=as_json)


def expire(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Run ids.")] = None,
    older_than: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Instead of naming runs: all that ended before that.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="With --older-than: only of this project.")] = None,
    before_step: Annotated[
        int | None, typer.Option(help="Only points before this step, as far as whole chunks lie there.")
    ] = None,
    statistic: Annotated[list[str] | None, typer.Option(help="Only this statistic; repeat it for more.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete points of runs; the runs, their configuration, timeline and cases stay."""
    if (older_than is None) == (not runs):
        raise UserInputError("no or two choices of runs", remedy="name runs, or use --older-than DAYS")
    with opened() as lathe:
        retention = lathe.store.retention
        chosen = runs or retention.ended_before(time.time() - (older_than or 0.0) * _DAY_S, project)

        def remove(run: str, only_count: bool) -> Removal:
            return retention.expire(run, before_step=before_step, statistics=statistic, dry_run=only_count)

        _remove(lathe, chosen, remove, "points.expired", dry_run=dry_run, yes=yes, as_json=as_json)


def _remove(
    lathe: Lathe, runs: Sequence[str], remove: Remove, action: str, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    counted = [remove(run, True) for run in runs]
    if not as_json:
        rows = [(each.run_id, f"{each.num_points:,}", f"{each.size_bytes / _MIB:.1f}") for each in counted]
        print_table(("run", "points", "MiB"), rows, empty="No run fits.")
    if not dry_run and counted:
        _confirm(sum(each.num_points for each in counted), yes=yes, as_json=as_json)
        counted = [_remove_one(lathe, run, remove, action) for run in runs]
        notes().print(f"deleted {sum(each.num_points for each in counted):,} points")
    if as_json:
        print_json({"dry_run": dry_run, "removed": counted})
    elif dry_run:
        console().print("Nothing was deleted.")


def _remove_one(lathe: Lathe, run: str, remove: Remove, action: str) -> Removal:
    """With an entry in the ledger, which outlives the run."""
    removed = remove(run, False)
    detail = {"points": removed.num_points, "bytes": removed.size_bytes}
    lathe.store.ledger.append(lathe.settings.actor, action, f"run:{run}", detail, [], time.time())
    return removed


def _confirm(num_points: int, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise UserInputError("nobody can be asked here", remedy="look with --dry-run, then add --yes")
    typer.confirm(f"Delete {num_points:,} points for good?", abort=True, err=True)
