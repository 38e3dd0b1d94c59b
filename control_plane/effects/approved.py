"""Is what would happen exactly what a person approved? The approval itself was used up when the effect was claimed."""

from __future__ import annotations

from context_store import Store
from context_store.records import Effect, Proposal
from contracts.errors import ApprovalInvalid
from control_plane.worktrees import Tree


def require_same_diff(store: Store, effect: Effect, tree: Tree) -> Proposal:
    """The effect's proposal. ApprovalInvalid when the checked-out tree is not the diff in it."""
    if effect.proposal_id is None:
        raise ApprovalInvalid(f"effect {effect.key} has no proposal", remedy="make a proposal and have it approved")
    proposal = store.proposals.get(effect.proposal_id)
    if proposal.diff != tree.diff:
        raise ApprovalInvalid(
            f"the code of effect {effect.key} is not the diff that was approved",
            remedy="the repository changed meanwhile; make the proposal again",
        )
    return proposal
