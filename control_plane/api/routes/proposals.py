"""Proposals and the decisions of people on them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StringConstraints

from context_store import Store
from contracts.enums import ProposalState
from control_plane.api.access import ClockDep, ReviewerDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.revisions import Changes, revise

router = APIRouter(prefix="/proposals", tags=["proposals"])


class Decision(BaseModel):
    """`bound_hash` is that of the proposal the person saw: another content is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    comment: Annotated[str, StringConstraints(max_length=10_000)] = ""
    bound_hash: str


class Edit(Decision):
    """What is to be otherwise, in the payload of the proposal that the person saw."""

    changes: Changes


@router.get("")
def proposals(store: StoreDep, state: ProposalState | None = None) -> Answer:
    """Oldest first."""
    return Answer({"proposals": store.proposals.list(state=state)})


@router.get("/{proposal_id}")
def proposal(store: StoreDep, proposal_id: str) -> Answer:
    """The exact diff, what an approval of it binds, who decided, and how many reviewers it needs."""
    return Answer(_shown(store, proposal_id))


@router.post("/{proposal_id}/approve")
def approve(store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision) -> Answer:
    """Allow exactly this proposal, once. Where two reviewers are needed it stays open after the first."""
    approval = store.proposals.approve(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"approval": approval, **_shown(store, proposal_id)})


@router.post("/{proposal_id}/reject")
def reject(store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision) -> Answer:
    """Decline it; the case stores why."""
    rejected = store.proposals.reject(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"proposal": rejected})


@router.post("/{proposal_id}/ask-changes")
def ask_changes(
    store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision
) -> Answer:
    """Send it back; the comment, which is needed, says what should be otherwise, and the case stores it."""
    asked = store.proposals.ask_changes(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"proposal": asked})


@router.post("/{proposal_id}/edit")
def edit(store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, wish: Edit) -> Answer:
    """Make a new proposal, with its diff computed anew, that takes the place of this one and waits for approval."""
    made = revise(store, proposal_id, wish.changes, principal, wish.comment, clock(), wish.bound_hash)
    return Answer(_shown(store, made.id))


def _shown(store: Store, proposal_id: str) -> dict[str, object]:
    found = store.proposals.get(proposal_id)
    return {
        "proposal": found,
        "approvals": store.proposals.approvals(proposal_id),
        "reviewers_needed": store.policies.reviewers_needed(found.kind),
    }
