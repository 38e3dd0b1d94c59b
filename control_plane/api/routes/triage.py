"""Triage of findings: acknowledge, snooze, mute, call one a false alarm; and how often each detector was wrong."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from context_store.records import DetectorRecord, TriageMark
from contracts.enums import TriageKind
from contracts.evidence import EvidenceRef
from control_plane.api.access import ClockDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Text

router = APIRouter(prefix="/triage", tags=["triage"])
_MAX_SNOOZE_S = 366 * 86_400.0
_Subjects = Annotated[list[str], Query(min_length=1, max_length=200, description="`anomaly:ID` or `investigation:ID`")]


class NewMark(Body):
    """`for_s`: how long a snooze lasts, in seconds from now; for that kind only."""

    subject: str
    kind: TriageKind
    comment: Text = ""
    for_s: float | None = Field(default=None, gt=0, le=_MAX_SNOOZE_S, allow_inf_nan=False)


class OneMark(Body):
    mark: TriageMark


class Marks(Body):
    marks: list[TriageMark]


class Detectors(Body):
    detectors: list[DetectorRecord]


@router.get("", response_model=Marks)
def history(store: StoreDep, subject: _Subjects) -> Answer:
    """Everything that was said about these findings, oldest first; the last mark of a finding counts."""
    return Answer({"marks": store.triage.history(map(EvidenceRef.parse, subject))})


@router.post("", status_code=HTTPStatus.CREATED, response_model=OneMark)
def mark(store: StoreDep, clock: ClockDep, principal: ResearcherDep, wish: NewMark) -> Answer:
    """Say something about a finding. While it is snoozed, muted or a false alarm, nobody is told of it and no case is
    opened for it; `reopened` takes back what was said before.
    """
    now = clock()
    until = None if wish.for_s is None else now + wish.for_s
    subject = EvidenceRef.parse(wish.subject)
    made = store.triage.mark(subject, wish.kind, principal.name, now, comment=wish.comment, until=until)
    return Answer({"mark": made}, status_code=HTTPStatus.CREATED)


@router.get("/detectors", response_model=Detectors)
def detectors(store: StoreDep) -> Answer:
    """Findings and false alarms by the kind of anomaly."""
    return Answer({"detectors": store.triage.detectors()})
