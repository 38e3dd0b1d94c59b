"""Is what would happen exactly what a person approved? The approval itself was used up when the effect was claimed."""

from __future__ import annotations

from context_store import Store
from context_store.records import Effect, Proposal
from contracts.errors import ApprovalInvalid
from control_plane.worktrees import Tree


def require_same_diff(store: Store, effect: Effect, tree: Tree) -> Proposal:
    """The effect's proposal. ApprovalInvalid when the checked-out tree is not the diff in it, or its base has a name
    that may come to mean another commit."""
    proposal = proposal_of(store, effect)
    base = effect.payload.get("code", {}).get("base", tree.base)
    if base != tree.base:
        raise ApprovalInvalid(
            f"effect {effect.key} is based on '{base}', which is no full commit hash",
            remedy=f"make the proposal again with the base {tree.base}",
        )
    if proposal.diff != tree.diff:
        raise ApprovalInvalid(
            f"the code of effect {effect.key} is not the diff that was approved",
            remedy="the repository changed meanwhile; make the proposal again",
        )
    return proposal


def proposal_of(store: Store, effect: Effect) -> Proposal:
    """Raises ApprovalInvalid when the effect has none."""
    if effect.proposal_id is None:
        raise ApprovalInvalid(f"effect {effect.key} has no proposal", remedy="make a proposal and have it approved")
    return store.proposals.get(effect.proposal_id)
