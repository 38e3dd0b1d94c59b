"""Evolution runs: their rounds, archive, evidence, memory, spending and canaries; proposals to promote and to open."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from context_store import Store
from context_store.records import Proposal
from control_plane import evolution
from control_plane.api.access import ClockDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page
from loops.evolve.loop import NAME, asked_of

router = APIRouter(prefix="/evolution", tags=["evolution"])


class EvolutionRun(Body):
    case_id: str
    title: str
    state: str
    statement: str
    rounds: int
    planned_rounds: int
    kept: int


class EvolutionPage(Page):
    runs: list[EvolutionRun]


class OneEvolution(Body):
    """`rounds`: each round's decision with its proposal (diff, hypothesis, critique); `nodes`: commits of the archive
    with what they passed on the fix tasks; `summary`: figures of the run, with the sealed result once opened."""

    run: EvolutionRun
    summary: dict[str, Any]
    rounds: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    memory: dict[str, list[str]]
    spent: dict[str, Any]


class Promotion(Body):
    """`commit`: of the run's archive; "" for its incumbent."""

    commit: str = Field(default="", max_length=64)


class Proposed(Body):
    proposal: Proposal


@router.get("", response_model=EvolutionPage)
def runs(store: StoreDep, wish: PagingDep) -> Answer:
    """Newest first."""
    cases = [case for case in store.knowledge.investigations() if case.loop == NAME]
    found, following = page(cases, wish, lambda each: each.id)
    return Answer({"runs": [_brief(store, case.id) for case in found], "next": following})


@router.get("/{case_id}", response_model=OneEvolution)
def run(store: StoreDep, case_id: str) -> Answer:
    """One run with all its rounds."""
    found = evolution.facts(store, case_id)
    proposals = found.pop("proposals")
    rounds = [{**proposals[str(body["round"])], **body} for body in found.pop("decisions")]
    parts = {name: found.pop(name) for name in ("nodes", "memory", "spent")}
    return Answer({"run": _brief(store, case_id), "summary": found, "rounds": rounds, **parts})


@router.post("/{case_id}/promotion", status_code=HTTPStatus.CREATED, response_model=Proposed)
def promote(store: StoreDep, clock: ClockDep, principal: ResearcherDep, case_id: str, wish: Promotion) -> Answer:
    """Propose to use a scaffold of the run; somebody has to approve it."""
    proposal = evolution.promotion(store, case_id, principal, clock(), wish.commit)
    return Answer({"proposal": proposal}, status_code=HTTPStatus.CREATED)


@router.post("/{case_id}/seal", status_code=HTTPStatus.CREATED, response_model=Proposed)
def open_seal(store: StoreDep, clock: ClockDep, principal: ResearcherDep, case_id: str) -> Answer:
    """Propose to open the run's sealed tasks, once and at its end; a person has to approve it."""
    proposal = evolution.opening(store, case_id, principal, clock())
    return Answer({"proposal": proposal}, status_code=HTTPStatus.CREATED)


def _brief(store: Store, case_id: str) -> dict[str, Any]:
    case = store.knowledge.investigation(case_id)
    decisions = [work.body for work in store.casework.list(case_id, "decision")]
    return {
        "case_id": case_id,
        "title": case.title,
        "state": str(case.state),
        "statement": case.statement,
        "rounds": len(decisions),
        "planned_rounds": asked_of(store, case_id).rounds,
        "kept": sum(bool(body["kept"]) for body in decisions),
    }
