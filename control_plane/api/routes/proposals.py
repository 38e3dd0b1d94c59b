"""Proposals and the decisions of people on them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, StringConstraints

from context_store import Store
from context_store.records import Approval, Proposal
from contracts.enums import EffectKind, ProposalState
from contracts.evidence import EvidenceRef
from control_plane.api.access import ClockDep, ResearcherDep, ReviewerDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, Text, page
from control_plane.proposing import Wish, propose
from control_plane.revisions import Changes, revise

router = APIRouter(prefix="/proposals", tags=["proposals"])


class Decision(Body):
    """`bound_hash` is that of the proposal the person saw: another content is refused."""

    comment: Text = ""
    bound_hash: str


class Edit(Decision):
    """What is to be otherwise, in the payload of the proposal that the person saw."""

    changes: Changes


class ProposalPage(Page):
    proposals: list[Proposal]


class OneProposal(Body):
    proposal: Proposal


class ShownProposal(OneProposal):
    approvals: list[Approval]
    reviewers_needed: int


class ApprovedProposal(ShownProposal):
    approval: Approval


class NewProposal(Body):
    """`payload` as the kind has it; diff and base state are computed here. `evidence`: references, may be empty."""

    kind: EffectKind
    payload: dict[str, Any]
    title: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    risk: Text = ""
    verification: Text = ""
    evidence: list[str] = Field(default_factory=list, max_length=100)
    expires_in_s: float = Field(default=3 * 86400.0, gt=0, le=30 * 86400.0)

    def wish(self) -> Wish:
        """Raises UserInputError when a reference cannot be read."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "evidence"}
        return Wish(**fields, evidence=tuple(map(EvidenceRef.parse, self.evidence)))


@router.get("", response_model=ProposalPage)
def proposals(
    store: StoreDep, wish: PagingDep, state: ProposalState | None = None, investigation_id: str | None = None
) -> Answer:
    """Oldest first."""
    found, following = page(store.proposals.list(state, investigation_id), wish, lambda each: each.id)
    return Answer({"proposals": found, "next": following})


@router.post("", status_code=HTTPStatus.CREATED, response_model=ShownProposal)
def make(store: StoreDep, clock: ClockDep, principal: ResearcherDep, wish: NewProposal) -> Answer:
    """Propose an effect. Once a reviewer approves it, a worker carries it out; nothing happens before."""
    made = propose(store, wish.wish(), principal, clock())
    return Answer(_shown(store, made.id), status_code=HTTPStatus.CREATED)


@router.get("/{proposal_id}", response_model=ShownProposal)
def proposal(store: StoreDep, proposal_id: str) -> Answer:
    """The exact diff, what an approval of it binds, who decided, and how many reviewers it needs."""
    return Answer(_shown(store, proposal_id))


@router.post("/{proposal_id}/approve", response_model=ApprovedProposal)
def approve(store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision) -> Answer:
    """Allow exactly this proposal, once. Where two reviewers are needed it stays open after the first."""
    approval = store.proposals.approve(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"approval": approval, **_shown(store, proposal_id)})


@router.post("/{proposal_id}/reject", response_model=OneProposal)
def reject(store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision) -> Answer:
    """Decline it; the case stores why."""
    rejected = store.proposals.reject(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"proposal": rejected})


@router.post("/{proposal_id}/ask-changes", response_model=OneProposal)
def ask_changes(
    store: StoreDep, clock: ClockDep, principal: ReviewerDep, proposal_id: str, decision: Decision
) -> Answer:
    """Send it back; the comment, which is needed, says what should be otherwise, and the case stores it."""
    asked = store.proposals.ask_changes(
        proposal_id, principal.name, principal.role, decision.comment, clock(), bound_hash=decision.bound_hash
    )
    return Answer({"proposal": asked})


@router.post("/{proposal_id}/edit", response_model=ShownProposal)
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
