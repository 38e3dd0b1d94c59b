"""GET /audit: the ledger, for admins. It only grows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from context_store.records import LedgerEntry
from control_plane.api.access import AdminDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Page, PagingDep, first, number_after

router = APIRouter(tags=["audit"])
_Name = Annotated[str | None, Query(max_length=1000)]


class AuditPage(Page):
    entries: list[LedgerEntry]


@router.get("/audit", response_model=AuditPage)
def audit(store: StoreDep, _: AdminDep, wish: PagingDep, subject: _Name = None, actor: _Name = None) -> Answer:
    """Who did what on which evidence, newest first. `subject` is a reference, for instance `proposal:pr-1a2b`."""
    found = store.ledger.list(subject, wish.limit + 1, actor=actor, before=number_after(wish))
    entries, following = first(found, wish, lambda each: each.id)
    return Answer({"entries": entries, "next": following})
