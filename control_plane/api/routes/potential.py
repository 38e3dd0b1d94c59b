"""What runs can become: readings of the potential loop, and the raw outputs behind each of their numbers."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from context_store import Store
from context_store.records import Investigation, Json, Proposal
from contracts.errors import NotFound
from control_plane.api.access import ClockDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page
from loops.potential.plan import LOOP
from loops.potential.recipe.plan import LOOP as RECIPE

router = APIRouter(prefix="/potential", tags=["potential"])
_INDEX = "index."


class CasePage(Page):
    """Cases of the potential loop, newest first."""

    cases: list[Investigation]


class Reading(Body):
    """`reading` null: not enough is measured yet. `measured`: pieces done so far, of `pieces`."""

    case: Investigation
    reading: Json | None
    measured: int
    pieces: int


class Outputs(Body):
    """Rows of a file of raw outputs: of an index, a file a row; else the first row says what they are."""

    file: str
    rows: list[Json]


class DecisionRecord(Body):
    """What the recipe loop put before a person: `record` has both curves, the pilots and their problems."""

    case: Investigation
    record: Json
    proposals: list[Proposal]


class Decisions(Page):
    """Newest first."""

    decisions: list[DecisionRecord]


class NewPotential(Body):
    run_id: Annotated[str, Field(max_length=500)]
    steps: list[Annotated[int, Field(ge=1, le=10**9)]] = Field(default_factory=list, max_length=50)
    max_checkpoints: int = Field(default=6, ge=2, le=50)
    seeds: int = Field(default=3, ge=2, le=9)
    num_items: int = Field(default=40, ge=5, le=1000)
    epochs: dict[str, Annotated[int, Field(ge=1, le=100)]] = Field(default_factory=dict)


class Opened(Body):
    case: Investigation


@router.get("", response_model=CasePage)
def cases(store: StoreDep, wish: PagingDep, run_id: Annotated[str | None, Query(max_length=500)] = None) -> Answer:
    """All of them, or those of a run."""
    found = [case for case in store.knowledge.investigations(run_id=run_id) if case.loop == LOOP]
    shown, following = page(found, wish, lambda each: each.id)
    return Answer({"cases": shown, "next": following})


@router.post("", status_code=HTTPStatus.CREATED, response_model=Opened)
def measure(store: StoreDep, clock: ClockDep, principal: ResearcherDep, wish: NewPotential) -> Answer:
    """Have a run's checkpoints tuned and scored; a worker does it."""
    from loops.potential.opening import Wish, open_case

    asked = Wish(**{**wish.model_dump(), "steps": tuple(wish.steps)})
    case_id = open_case(store, asked, clock())
    store.ledger.append(principal.name, "measure_potential", f"investigation:{case_id}", wish.model_dump(), (), clock())
    return Answer({"case": store.knowledge.investigation(case_id)}, status_code=HTTPStatus.CREATED)


@router.get("/decisions", response_model=Decisions)
def decisions(store: StoreDep, wish: PagingDep) -> Answer:
    """Continue, change or stop: what pilots and a run's potential say, and what was decided."""
    records = list(reversed(store.casework.of_loop(RECIPE, "decision")))
    shown, following = page(records, wish, lambda each: each.case_id)
    found = [
        {
            "case": store.knowledge.investigation(each.case_id),
            "record": dict(each.body),
            "proposals": store.proposals.list(investigation_id=each.case_id),
        }
        for each in shown
    ]
    return Answer({"decisions": found, "next": following})


@router.get("/{case_id}", response_model=Reading)
def reading(store: StoreDep, case_id: str) -> Answer:
    """The newest reading of a case."""
    case = _case(store, case_id)
    readings = store.casework.list(case_id, "reading")
    plan = store.casework.get(case_id, "plan", "plan").body
    done = sum(len(store.casework.list(case_id, kind)) for kind in ("base", "tune", "failed"))
    pieces = len(plan["steps"]) * (1 + len(plan["seeds"]))
    body = dict(readings[-1].body) if readings else None
    return Answer({"case": case, "reading": body, "measured": done, "pieces": pieces})


@router.get("/{case_id}/outputs", response_model=Outputs)
def outputs(store: StoreDep, case_id: str, file: Annotated[str, Query(max_length=2000)]) -> Answer:
    """The rows of one file of raw outputs that a measurement or a pilot of this case names."""
    _case(store, case_id, LOOP, RECIPE)
    path = Path(file)
    known = {Path(each) for each in _named(store, case_id)}
    if path not in known and not any(path.parent == each.parent for each in known):
        raise NotFound(f"no measurement of case {case_id} names this file", remedy="take a `raw` of its reading")
    if not path.is_file():
        raise NotFound(f"{path.name} is no longer on this machine", remedy="measure again: lathe potential RUN")
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    if path.name.startswith(_INDEX):
        rows = [row | {"file": str(path.parent / row["file"])} for row in rows]
    return Answer({"file": str(path), "rows": rows})


def _case(store: Store, case_id: str, *loops: str) -> Investigation:
    case = store.knowledge.investigation(case_id)
    if case.loop not in (loops or (LOOP,)):
        raise NotFound(f"case {case_id} is one of the {case.loop} loop", remedy="GET /investigations/{case_id}")
    return case


def _named(store: Store, case_id: str) -> set[str]:
    """Every file of raw outputs that a stored measurement names."""
    found: set[str] = set()
    for kind in ("base", "tune"):
        for each in store.casework.list(case_id, kind):
            found.add(each.body["raw"])
            found |= {fan["raw"] for fan in each.body["fan"].values()}
            found |= set(each.body.get("bits_raw", {}).values())
            found |= {mark["raw"] for mark in each.body.get("marks", ())}
    for each in store.casework.list(case_id, "pilot"):
        found |= {each.body["base_raw"], each.body["tiny_raw"], *each.body.get("bits_raw", {}).values()}
    return found
