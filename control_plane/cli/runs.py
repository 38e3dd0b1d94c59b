"""`lathe runs`, `timeline`, `diff`: read what the store knows about runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from contracts.enums import RunRole, TimelineKind
from control_plane.cli.session import Json, console, opened, print_json, print_table, when

_QUIET_KINDS = (TimelineKind.CHECKPOINT,)


def runs(
    role: Annotated[RunRole | None, typer.Option(help="Only these (default: trainings).")] = RunRole.TRAINING,
    all_roles: Annotated[bool, typer.Option("--all", help="Diagnostics too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    with opened() as lathe:
        found = lathe.store.runs.list(role=None if all_roles else role, limit=limit)
        if as_json:
            print_json(found)
            return
        rows = [(run.id, run.state, run.last_step, when(run.created_at), run.message) for run in found]
        print_table(("run", "state", "step", "created", ""), rows, empty="No runs yet. Begin one: lathe train PROJECT")


def timeline(
    run: Annotated[str, typer.Argument(help="Run id.")],
    kind: Annotated[
        list[TimelineKind] | None, typer.Option(help="Only these kinds (default: all but checkpoints).")
    ] = None,
    from_tokens: Annotated[float | None, typer.Option(help="Only once so many tokens were seen (1e9).")] = None,
    to_tokens: Annotated[float | None, typer.Option(help="Only until so many tokens were seen.")] = None,
    as_json: Json = False,
) -> None:
    """Show what changed or happened in a run, by step and by tokens seen."""
    with opened() as lathe:
        lathe.store.runs.get(run)
        kinds = kind or [each for each in TimelineKind if each not in _QUIET_KINDS]
        seen = lathe.store.timeline.tokens_seen(run)
        events = seen.between(lathe.store.timeline.list(run, kinds=kinds), from_tokens, to_tokens)
        if as_json:
            print_json([vars(event) | {"tokens_seen": seen.at(event.step)} for event in events])
            return
        rows = [(event.step, _short(seen.at(event.step)), event.segment, event.kind, event.title) for event in events]
        print_table(("step", "tokens", "segment", "kind", "what"), rows, empty=f"Nothing happened in run {run} there.")


def _short(tokens: float | None) -> str:
    return "" if tokens is None else f"{tokens:.4g}"


def diff(
    before: Annotated[str, typer.Argument(metavar="RUN_A", help="Run id, or RUN#SEGMENT.")],
    after: Annotated[str, typer.Argument(metavar="RUN_B", help="Run id, or RUN#SEGMENT.")],
    as_json: Json = False,
) -> None:
    """Compare two runs (their newest segments) or two segments: config, code, data mixture, environment."""
    from control_plane.comparison import compare

    with opened() as lathe:
        comparison = compare(lathe.store, before, after)
        if as_json:
            print_json(comparison)
            return
        _print_comparison(comparison)


def _same(found: dict[str, Any], section: str) -> str:
    """What it means that a section shows no difference."""
    return "  not recorded on both sides" if section in found["not_recorded"] else "  no difference"


def _print_comparison(found: dict[str, Any]) -> None:
    out = console()
    out.print(f"{found['before']}  ->  {found['after']}", style="bold", markup=False)
    for section in ("config", "effective", "mixture", "environment"):
        rows = [(change.key, change.before, "->", change.after) for change in found[section]]
        out.print(f"\n{section}", style="bold")
        print_table(("field", "before", "", "after"), rows, empty=_same(found, section))
    code = found["code"]
    out.print("\ncode", style="bold")
    if code["before"] == code["after"] or "code" in found["not_recorded"]:
        out.print(_same(found, "code"))
    else:
        out.print(f"  {code['before'][:12]} -> {code['after'][:12]}", markup=False)
    for commit in code["commits"]:
        out.print(f"  {commit.hash[:12]}  {commit.subject}", markup=False)
