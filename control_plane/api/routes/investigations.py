"""Cases: list, read whole, open one for a run."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from contracts.enums import InvestigationState
from control_plane.api.access import ClockDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.case_file import case_file

router = APIRouter(prefix="/investigations", tags=["investigations"])


class NewInvestigation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str


@router.get("")
def investigations(store: StoreDep, state: InvestigationState | None = None) -> Answer:
    """All cases."""
    return Answer({"investigations": store.knowledge.investigations(state=state)})


@router.post("", status_code=HTTPStatus.CREATED)
def open_investigation(store: StoreDep, clock: ClockDep, principal: ResearcherDep, wish: NewInvestigation) -> Answer:
    """Look at a run and open a case for what is found; `investigation` is null when nothing is wrong."""
    from loops.debug import detect, open_case

    store.runs.get(wish.run_id)
    findings = detect(store, wish.run_id)
    case_id = open_case(store, wish.run_id, findings, clock())
    if case_id is None:
        return Answer({"investigation": None, "sentence": f"nothing wrong found in run {wish.run_id}"})
    subject = f"investigation:{case_id}"
    store.ledger.append(principal.name, "open_investigation", subject, {"run_id": wish.run_id}, (), clock())
    opened = {"investigation": store.knowledge.investigation(case_id), "sentence": findings[0].statement}
    return Answer(opened, status_code=HTTPStatus.CREATED)


@router.get("/{case_id}")
def investigation(store: StoreDep, case_id: str) -> Answer:
    """One case with everything that belongs to it."""
    return Answer(case_file(store, case_id))
