"""GET /audit: the ledger, for admins; /audit/shares: who did how much of it. It only grows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from context_store.records import LedgerEntry
from control_plane.api.access import AdminDep, ClockDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, first, number_after

router = APIRouter(tags=["audit"])
_DAY_S = 86_400.0
_Name = Annotated[str | None, Query(max_length=1000)]


class AuditPage(Page):
    entries: list[LedgerEntry]


class ActorPart(Body):
    actor: str
    is_agent: bool
    steps: int
    seconds: float


class SharesOut(Body):
    """Between `begin` and `end`, unix seconds; shares are of 1. `definition` says what counts."""

    begin: float | None
    end: float | None
    actors: list[ActorPart]
    agents_by_steps: float
    agents_by_time: float
    definition: str


@router.get("/audit/shares", response_model=SharesOut)
def shares(store: StoreDep, clock: ClockDep, days: Annotated[float, Query(gt=0, le=36_500)] = 30.0) -> Answer:
    """Which share of the ledger's steps and time agents have."""
    now = clock()
    found = store.ledger.shares(now - days * _DAY_S, now)
    both = {"agents_by_steps": found.agents_by_steps, "agents_by_time": found.agents_by_time}
    return Answer({**vars(found), **both})


@router.get("/audit", response_model=AuditPage)
def audit(store: StoreDep, _: AdminDep, wish: PagingDep, subject: _Name = None, actor: _Name = None) -> Answer:
    """Who did what on which evidence, newest first. `subject` is a reference, for instance `proposal:pr-1a2b`."""
    found = store.ledger.list(subject, wish.limit + 1, actor=actor, before=number_after(wish))
    entries, following = first(found, wish, lambda each: each.id)
    return Answer({"entries": entries, "next": following})
