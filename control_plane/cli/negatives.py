"""`lathe negatives`: what was tried and did not work."""

from __future__ import annotations

from typing import Annotated

import typer

from control_plane.cli.session import Json, console, opened, parse_overrides, print_json

app = typer.Typer(help="What was tried and did not work.", no_args_is_help=True)


@app.command()
def search(
    text: Annotated[str, typer.Argument(help="What you want to try, in words.")],
    limit: Annotated[int, typer.Option(min=1)] = 10,
    as_json: Json = False,
) -> None:
    """Ask: have we tried this before?"""
    with opened() as lathe:
        found = lathe.store.negatives.search(text, limit=limit)
        if as_json:
            print_json([{"score": score, "negative": negative} for negative, score in found])
            return
        out = console()
        for negative, _ in found:
            out.print(f"#{negative.id}  {negative.claim}", style="bold", markup=False)
            out.print(f"    tried: {negative.intervention}", markup=False)
            out.print(f"    seen:  {negative.observed}", markup=False)
            out.print(f"    why:   {negative.reason}", markup=False)
            if negative.reopen_if:
                out.print(f"    again if {negative.reopen_if}", markup=False)
            out.print(f"    evidence: {', '.join(map(str, negative.evidence))}", markup=False)
        if not found:
            out.print("Nothing like this was stored before.")


@app.command()
def add(
    claim: Annotated[str, typer.Option(help="What was believed.")],
    intervention: Annotated[str, typer.Option(help="What was tried.")],
    observed: Annotated[str, typer.Option(help="What happened.")],
    reason: Annotated[str, typer.Option(help="Why it did not work.")],
    evidence: Annotated[list[str], typer.Option(help="kind:id#slice, for instance run:RUN; repeat it for more.")],
    expected: Annotated[str, typer.Option(help="What should have happened.")] = "",
    reason_class: Annotated[str, typer.Option(help="Kind of reason.")] = "other",
    reopen_if: Annotated[str, typer.Option(help="What would make it worth trying again.")] = "",
    context: Annotated[list[str] | None, typer.Option(help="name=value; repeat it for more.")] = None,
    project: Annotated[str | None, typer.Option(help="Project id.")] = None,
    as_json: Json = False,
) -> None:
    """Store one, with its evidence."""
    from context_store.records import NegativeResult
    from contracts.evidence import EvidenceRef

    with opened() as lathe:
        stored = lathe.store.negatives.add(
            NegativeResult(
                claim=claim,
                intervention=intervention,
                context=parse_overrides(context or []),
                expected=expected,
                observed=observed,
                reason_class=reason_class,
                reason=reason,
                evidence=tuple(map(EvidenceRef.parse, evidence)),
                reopen_if=reopen_if,
                investigation_id=None,
                actor=lathe.settings.actor,
                project_id=project,
            )
        )
        print_json(stored) if as_json else console().print(f"stored as #{stored.id}")
