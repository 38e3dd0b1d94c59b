"""`lathe negatives`: what was tried and did not work."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.session import Json, console, opened, parse_overrides, print_json

if TYPE_CHECKING:
    from context_store import Store
    from context_store.records import EffectSize, NegativeResult

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
        for negative, _ in found:
            _print(negative)
        if not found:
            console().print("Nothing like this was stored before.")


@app.command()
def show(number: Annotated[int, typer.Argument(help="Its number.")], as_json: Json = False) -> None:
    """One with its circumstances, what is like it, and what stands against it."""
    with opened() as lathe:
        negative = lathe.store.negatives.get(number)
        likes = lathe.store.likeness.duplicates(negative)
        against = lathe.store.likeness.contradictions(negative)
    if as_json:
        print_json({"negative": negative, "duplicates": likes, "contradictions": against})
        return
    _print(negative)
    out = console()
    effect = negative.observed_effect
    known = {"scale": negative.scale, "data": negative.data, "code": negative.code_version, **negative.context}
    out.print(
        f"    where: {', '.join(f'{name} {value}' for name, value in known.items() if value != '')}", markup=False
    )
    if effect is not None:
        interval = "" if effect.lo is None else f", {effect.lo:g} to {effect.hi:g}"
        out.print(f"    effect: {effect.what} {effect.value:+g}{interval} {effect.unit}", markup=False)
    if negative.superseded_by is not None:
        out.print(f"    superseded by #{negative.superseded_by}", markup=False)
    for like in likes:
        out.print(f"  {like.why}: #{like.negative.id} {like.negative.claim}", markup=False)
    for each in against:
        differs = f" (differs: {'; '.join(each.differs)})" if each.differs else ""
        out.print(f"  against it: {each.reference} {each.statement}{differs}", style="yellow", markup=False)


@app.command()
def supersede(
    number: Annotated[int, typer.Argument(help="The one that no longer counts.")],
    by: Annotated[int, typer.Option(help="The one that took its place.")],
    as_json: Json = False,
) -> None:
    """Note that another one took its place; both stay."""
    with opened() as lathe:
        changed = lathe.store.negatives.supersede(number, by)
    print_json(changed) if as_json else console().print(f"#{number} is superseded by #{by}")


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
    scale: Annotated[str, typer.Option(help="On which scale.")] = "",
    data: Annotated[str, typer.Option(help="On which data.")] = "",
    code_version: Annotated[str, typer.Option(help="With which commit.")] = "",
    effect: Annotated[str, typer.Option(help="How large it was: 'WHAT=VALUE[,LO,HI][ UNIT]'.")] = "",
    expected_effect: Annotated[str, typer.Option(help="How large it should have been, written alike.")] = "",
    diff: Annotated[Path | None, typer.Option(help="File with the diff that was tried.", exists=True)] = None,
    as_json: Json = False,
) -> None:
    """Store one, with its evidence. Says which stored ones are the same change."""
    from context_store.negatives import hash_of_diff
    from context_store.records import NegativeResult
    from contracts.evidence import EvidenceRef

    with opened() as lathe:
        negative = NegativeResult(
            claim=claim, intervention=intervention, context=parse_overrides(context or []), expected=expected,
            observed=observed, reason_class=reason_class, reason=reason,
            evidence=tuple(map(EvidenceRef.parse, evidence)), reopen_if=reopen_if, investigation_id=None,
            actor=lathe.settings.actor, project_id=project, scale=scale, data=data, code_version=code_version,
            diff_hash=hash_of_diff(diff.read_text()) if diff else "",
            observed_effect=_effect("--effect", effect), expected_effect=_effect("--expected-effect", expected_effect),
        )  # fmt: skip
        _store(lathe.store, negative, as_json=as_json)


def _effect(option: str, text: str) -> EffectSize | None:
    """`val_bpb=0.002,0.001,0.003 bits per byte`; None for "". Raises UserInputError."""
    from context_store.records import EffectSize
    from contracts.errors import UserInputError

    if not text:
        return None
    what, _, said = text.partition("=")
    numbers, _, unit = said.strip().partition(" ")
    try:
        value, *interval = map(float, numbers.rstrip(",").split(","))
    except ValueError:
        value, interval = math.nan, []
    if not what.strip() or len(interval) not in (0, 2) or not all(map(math.isfinite, (value, *interval))):
        raise UserInputError(f"{option} {text}: no effect", remedy=f"write {option} 'val_bpb=0.002,0.001,0.003 UNIT'")
    lo, hi = interval or (None, None)
    return EffectSize(what=what.strip(), value=value, lo=lo, hi=hi, unit=unit.strip())


def _store(store: Store, negative: NegativeResult, *, as_json: bool) -> None:
    stored = store.negatives.add(negative)
    if as_json:
        print_json(stored)
        return
    console().print(f"stored as #{stored.id}")
    for like in store.likeness.duplicates(stored):
        console().print(f"  {like.why}: #{like.negative.id} {like.negative.claim}", markup=False)


def _print(negative: NegativeResult) -> None:
    out = console()
    out.print(f"#{negative.id}  {negative.claim}", style="bold", markup=False)
    out.print(f"    tried: {negative.intervention}", markup=False)
    out.print(f"    seen:  {negative.observed}", markup=False)
    out.print(f"    why:   {negative.reason}", markup=False)
    if negative.reopen_if:
        out.print(f"    again if {negative.reopen_if}", markup=False)
    out.print(f"    evidence: {', '.join(map(str, negative.evidence))}", markup=False)
