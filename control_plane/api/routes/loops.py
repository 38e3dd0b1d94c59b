"""Loops: what each one is for, how far it may go by itself, what it did round by round, and how its scores stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from context_store import Store
from context_store.records import LedgerEntry
from contracts.enums import AutonomyLevel, InvestigationState, SignalStrength
from contracts.errors import NotFound
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, first, number_after
from loops.core import Charter, Loop

router = APIRouter(prefix="/loops", tags=["loops"])
_MOST_SCORED = 50  # newest cases whose scores are told


class LoopCharter(Body):
    """Which links of the cycle are broken for the loop's object, and where it closes instead."""

    loop_class: str
    broken_links: list[str]
    why_broken: str
    closes_at: str
    signal: SignalStrength


class LoopState(Body):
    """`level`: what it may do without a person. `cases`: how many, by state."""

    name: str
    charter: LoopCharter
    level: AutonomyLevel
    cases: dict[InvestigationState, int]


class Loops(Body):
    loops: list[LoopState]


class Gate(Body):
    """A line that scores are held against."""

    label: str
    value: float


class LoopScore(Body):
    """One number that decided something. `lo`, `hi`: its 95 % interval, null where it has none."""

    case_id: str
    group: str
    label: str
    value: float
    lo: float | None
    hi: float | None


class Scores(Body):
    """`unit`: what the numbers are; newest case first."""

    unit: str
    gates: list[Gate]
    scores: list[LoopScore]


class Ledger(Page):
    entries: list[LedgerEntry]


@router.get("", response_model=Loops)
def loops(store: StoreDep) -> Answer:
    """Every loop of this Lathe."""
    return Answer({"loops": [_state(store, loop).model_dump() for loop in _registered()]})


@router.get("/{name}/scores", response_model=Scores)
def scores(store: StoreDep, name: str) -> Answer:
    """The measures of the newest cases, with the gates that decide on them."""
    _require(name)
    scale = _versions() if name == "classifier" else _reruns()
    newest = [case.id for case in store.knowledge.investigations() if case.loop == name][:_MOST_SCORED]
    found = [score for case_id in newest for score in scale.of(store, case_id)]
    return Answer(Scores(unit=scale.unit, gates=list(scale.gates), scores=found).model_dump())


@router.get("/{name}/ledger", response_model=Ledger)
def ledger(
    store: StoreDep, wish: PagingDep, name: str, case_id: Annotated[str | None, Query(max_length=500)] = None
) -> Answer:
    """What the loop wrote down, newest first: one entry a step, whose `detail.step` begins with its round."""
    _require(name)
    subject = None if case_id is None else f"investigation:{case_id}"
    found = store.ledger.list(subject, wish.limit + 1, actor=f"loop:{name}", before=number_after(wish))
    entries, following = first(found, wish, lambda each: each.id)
    return Answer({"entries": entries, "next": following})


def _registered() -> tuple[type[Loop], ...]:
    from loops.debug.loop import DebugLoop
    from loops.evolve.loop import EvolveLoop
    from loops.potential.loop import PotentialLoop
    from loops.potential.recipe.loop import RecipeLoop
    from loops.quantify.loop import ClassifierLoop

    return DebugLoop, ClassifierLoop, PotentialLoop, RecipeLoop, EvolveLoop


def _require(name: str) -> None:
    known = sorted(loop.name for loop in _registered())
    if name not in known:
        raise NotFound(f"no loop is called {name}", remedy="choose one of: " + ", ".join(known))


def _state(store: Store, loop: type[Loop]) -> LoopState:
    cases = [case for case in store.knowledge.investigations() if case.loop == loop.name]
    count = {state: sum(case.state is state for case in cases) for state in InvestigationState}
    return LoopState(name=loop.name, charter=_charter(loop.charter), level=store.policies.level(loop.name), cases=count)


def _charter(charter: Charter) -> LoopCharter:
    return LoopCharter(
        loop_class=charter.loop_class,
        broken_links=[link.value for link in charter.broken_links],
        why_broken=charter.why_broken,
        closes_at=charter.closes_at,
        signal=charter.signal,
    )


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """What a loop measures, and where its numbers come from."""

    unit: str
    gates: tuple[Gate, ...]
    of: Callable[[Store, str], Iterator[LoopScore]]


def _reruns() -> _Scale:
    from loops.debug.readout import ABSENT_BELOW, PRESENT_FROM

    gates = (Gate(label="gone below", value=ABSENT_BELOW), Gate(label="there from", value=PRESENT_FROM))
    return _Scale(unit="share of the anomaly (0 = control, 1 = recorded run)", gates=gates, of=_rerun_scores)


def _versions() -> _Scale:
    return _Scale(unit="F1, agreement with the reference labels", gates=(), of=_version_scores)


def _version_scores(store: Store, case_id: str) -> Iterator[LoopScore]:
    """The F1 of each version that was taken, as a verdict is, and of those that were not."""
    for each in store.casework.list(case_id, "version"):
        f1 = each.body.get("evaluation", {}).get("f1", {})
        if f1.get("value") is not None:
            group = "verdict" if each.body["decision"]["is_taken"] else "not taken"
            label = f"version {each.body['number']}: {each.body['revision']['why']}"
            yield LoopScore(case_id=case_id, group=group, label=label, value=f1["value"], lo=f1["low"], hi=f1["high"])


def _rerun_scores(store: Store, case_id: str) -> Iterator[LoopScore]:
    """The effect of each verdict with its interval, then each re-run's measure."""
    for verdict in store.knowledge.verdicts(case_id):
        if verdict.effect is not None:
            lo, hi = verdict.interval or (None, None)
            label = f"{verdict.verdict} ({verdict.scope}), {verdict.num_reruns} re-runs"
            yield LoopScore(case_id=case_id, group="verdict", label=label, value=verdict.effect, lo=lo, hi=hi)
    for each in store.knowledge.diagnostics(case_id):
        if each.measure is not None:
            yield LoopScore(
                case_id=case_id, group=each.kind.value, label=each.label, value=each.measure, lo=None, hi=None
            )
