"""Proposals and the decisions of people on them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StringConstraints

from contracts.enums import ProposalState
from control_plane.api.access import ClockDep, ReviewerDep, StoreDep
from control_plane.api.answer import Answer

router = APIRouter(prefix="/proposals", tags=["proposals"])


class Decision(BaseModel):
    """`bound_hash` is that of the proposal the person saw: another content is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    comment: Annotated[str, StringConstraints(max_length=10_000)] = ""
    bound_hash: str


@router.get("")
def proposals(store: StoreDep, state: ProposalState | None = None) -> Answer:
    """Oldest first."""
    return Answer({"proposals": store.proposals.list(state=state)})


@router.get("/{proposal_id}")
def proposal(store: StoreDep, proposal_id: str) -> Answer:
    """The exact diff, what it binds and who decided."""
    return Answer({"proposal": store.proposals.get(proposal_id)})


@router.post("/{proposal_id}/approve")
def approve(store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision) -> Answer:
    """Allow exactly this proposal, once."""
    approval = store.proposals.approve(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"approval": approval, "proposal": store.proposals.get(proposal_id)})


@router.post("/{proposal_id}/reject")
def reject(store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision) -> Answer:
    """Decline it; the case stores why."""
    rejected = store.proposals.reject(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"proposal": rejected})
