"""May this effect be carried out? Asked by a claim, in the claim's own transaction; approvals are used up here.

A diagnostic re-run needs an open, not used up budget of its investigation, and a loop that may do more than observe;
an undo, an effect of its own open case that was carried out under an approval and was not taken back yet; everything
else the approvals of exactly this content: one person's, or a policy's in force, or two persons' where four eyes are
asked for. A loop may stop, unasked, the training of a change of its own that was approved as a watched one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from context_store.budgets import is_reserved, load_budget, rename_reservation, reserve_share
from context_store.models import ApprovalRow, EffectRow, InvestigationRow, PolicyRow
from context_store.policies import WITHIN_BUDGET, level_of, reviewers_needed
from context_store.proposals import bound_hash, load_proposal, reserved_for
from context_store.records import Approval, Effect, Json, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, InvestigationState, ProposalState
from contracts.errors import ApprovalInvalid, BudgetExceeded, NotFound, NotPermitted

_LOOP = "loop:"  # actors that are loops are called so


@dataclass(frozen=True, kw_only=True)
class Deed:
    """What is about to be done under an approval, and the key that uses it up."""

    key: str
    kind: EffectKind
    payload: Json
    investigation_id: str | None
    proposal_id: str | None


def allow(connection: sa.Connection, effect: Effect, now: float) -> None:
    """Raises NotPermitted with the reason why this effect may not be carried out."""
    if effect.kind is EffectKind.UNDO:
        _check_undo(connection, effect)
    elif effect.kind is EffectKind.STOP_RUN and _stops_what_it_watches(connection, effect):
        pass
    elif effect.kind in WITHIN_BUDGET:
        _check_level(connection, effect)
        if effect.state is EffectState.REQUESTED:
            _check_budget(connection, effect)
    else:
        deed = Deed(
            key=effect.key,
            kind=effect.kind,
            payload=effect.payload,
            investigation_id=effect.investigation_id,
            proposal_id=effect.proposal_id,
        )
        use_approvals(connection, deed, now)


def use_approvals(connection: sa.Connection, deed: Deed, now: float) -> Proposal:
    """Use up the approvals of the deed's proposal, or find them used up by this very deed before."""
    proposal = _proposal_of(connection, deed)
    approvals = _approvals_of(connection, deed)
    if not approvals:
        raise ApprovalInvalid(
            f"proposal {proposal.id} has no unused approval", remedy="have the proposal approved (again)"
        )
    present = bound_hash(deed.kind, deed.payload, proposal.diff, proposal.base_state, proposal.expires_at)
    if any(approval.bound_hash != present for approval in approvals):
        raise ApprovalInvalid(
            f"the approval of {proposal.id} is for another content than effect {deed.key}",
            remedy="propose what is to be done now and have that approved",
        )
    if all(approval.used_by == deed.key for approval in approvals):
        _require_approved(proposal)
        return proposal
    if proposal.expires_at <= now or any(approval.expires_at <= now for approval in approvals):
        raise ApprovalInvalid(
            f"the approval of {proposal.id} has expired", remedy="have the proposal made and approved again"
        )
    _require_enough(connection, proposal, approvals)
    ids = [approval.id for approval in approvals]
    connection.execute(sa.update(ApprovalRow).where(ApprovalRow.id.in_(ids)).values(used_by=deed.key))
    for approval_id in ids:
        rename_reservation(connection, reserved_for(approval_id), deed.key)
    return proposal


def _proposal_of(connection: sa.Connection, deed: Deed) -> Proposal:
    try:
        proposal = load_proposal(connection, deed.proposal_id or "", lock=True)
    except NotFound as error:
        raise ApprovalInvalid(
            f"effect {deed.key} has no proposal", remedy="make a proposal and have it approved"
        ) from error
    if proposal.investigation_id != deed.investigation_id:
        raise ApprovalInvalid(
            f"proposal {proposal.id} belongs to another case than effect {deed.key}", remedy="propose it in this case"
        )
    return proposal


def _approvals_of(connection: sa.Connection, deed: Deed) -> Sequence[Approval]:
    """Those this deed used up before; else those nobody used."""
    query = sa.select(ApprovalRow.__table__).where(ApprovalRow.proposal_id == deed.proposal_id).with_for_update()
    rows = connection.execute(query.where(ApprovalRow.used_by.in_(["", deed.key])).order_by(ApprovalRow.id))
    found = [Approval(**row._mapping) for row in rows]
    return [each for each in found if each.used_by == deed.key] or found


def _require_enough(connection: sa.Connection, proposal: Proposal, approvals: Sequence[Approval]) -> None:
    """Enough distinct reviewers by what is asked for now, and no policy that was revoked since."""
    policies = [approval.policy_id for approval in approvals if approval.policy_id is not None]
    revoked = PolicyRow.id.in_(policies) & PolicyRow.revoked_at.isnot(None)
    if policies and connection.execute(sa.select(PolicyRow.id).where(revoked)).first() is not None:
        raise ApprovalInvalid(
            f"the policy that approved {proposal.id} was revoked", remedy="have a person approve what is to be done"
        )
    persons = {approval.actor.casefold() for approval in approvals if approval.policy_id is None}
    needed = reviewers_needed(connection, proposal.kind)
    if needed > 1 and len(persons) < needed:
        raise ApprovalInvalid(
            f"{proposal.kind} needs {needed} reviewers; {len(persons)} approved {proposal.id}",
            remedy="have the proposal made again and approved by another reviewer too",
        )
    _require_approved(proposal)


def _require_approved(proposal: Proposal) -> None:
    if proposal.state is not ProposalState.APPROVED:
        raise ApprovalInvalid(f"proposal {proposal.id} is {proposal.state.value}", remedy="have it approved")


def _check_undo(connection: sa.Connection, effect: Effect) -> None:
    """What is taken back must be done, in the same open case, approved, and not taken back by another effect."""
    undone = str(effect.payload.get("effect", ""))
    approved = sa.select(ApprovalRow.id).where(ApprovalRow.used_by == EffectRow.key)
    is_open = sa.select(InvestigationRow.id).where(
        InvestigationRow.id == EffectRow.investigation_id, InvestigationRow.state != InvestigationState.CLOSED
    )
    done = (EffectRow.key == undone) & (EffectRow.state == EffectState.DONE) & approved.exists() & is_open.exists()
    same_case = EffectRow.investigation_id == effect.investigation_id
    found = connection.execute(sa.select(EffectRow.key).where(done & same_case).with_for_update()).scalar()
    if found is None or dict(effect.payload) != {"effect": undone}:
        raise ApprovalInvalid(
            f"effect '{undone}' was not carried out under an approval of this open case, so it cannot be taken back",
            remedy="propose what is to be done and have it approved",
        )
    others = (EffectRow.kind == EffectKind.UNDO) & (EffectRow.key != effect.key) & (EffectRow.attempt > 0)
    same = EffectRow.payload == effect.payload
    if connection.execute(sa.select(EffectRow.key).where(others & same)).scalar() is not None:
        raise ApprovalInvalid(f"effect '{undone}' was taken back before", remedy="look at the run's timeline")


def _stops_what_it_watches(connection: sa.Connection, effect: Effect) -> bool:
    """True for a training of this very case whose approval says that it is watched, while it runs."""
    if effect.proposal_id is not None or not effect.actor.startswith(_LOOP):
        return False
    approved = sa.select(ApprovalRow.id).where(ApprovalRow.used_by == EffectRow.key)
    watched = (
        (EffectRow.kind == EffectKind.RESUME_WITH_PATCH)
        & (EffectRow.state == EffectState.RUNNING)
        & (EffectRow.investigation_id == effect.investigation_id)
        & approved.exists()
    )
    payloads = connection.execute(sa.select(EffectRow.payload).where(watched)).scalars()
    return any("watch_until" in each and {"run_id": each["run_id"]} == dict(effect.payload) for each in payloads)


def _check_level(connection: sa.Connection, effect: Effect) -> None:
    if not effect.actor.startswith(_LOOP):
        return
    loop = effect.actor.removeprefix(_LOOP)
    if not level_of(connection, loop).includes(AutonomyLevel.PROPOSE):
        raise NotPermitted(
            f"the {loop} loop may only observe, so it runs no diagnostics",
            remedy="an admin may let it propose: lathe policy set LOOP propose",
        )


def _check_budget(connection: sa.Connection, effect: Effect) -> None:
    """A reservation under the effect's key will do; else one re-run and its share of the seconds are reserved now."""
    if is_reserved(connection, effect.key):
        return
    budget = load_budget(connection, effect.investigation_id or "", lock=True)
    if budget is None:
        raise BudgetExceeded(
            f"no budget is open for investigation {effect.investigation_id}",
            remedy="open a budget under the investigation's id before asking for diagnostics",
        )
    if budget.closed or budget.cpu_s_left <= 0 or budget.reruns_left < 1:
        raise BudgetExceeded(
            f"the budget of investigation {effect.investigation_id} is used up",
            remedy="decide on the evidence there is, or open a new case with a larger budget",
        )
    reserve_share(connection, budget.id, effect.key)


def settled(result: Json) -> dict[str, Any]:
    """What a result says was spent."""
    return {name: result[name] for name in ("cpu_s", "tokens", "usd", "wall_s") if name in result}
