"""Proposals and the decisions people take on them. The decisions here are the only writers of approvals."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.budgets import load_budget, release_reservation, reserve_share
from context_store.canonical import content_hash
from context_store.database import Database
from context_store.ledger import append_entry
from context_store.models import ApprovalRow, InvestigationRow, ProposalRow, RunRow
from context_store.policies import load_policy, reviewers_needed
from context_store.records import Approval, NewProposal, Proposal
from context_store.redaction import redact
from contracts.enums import AutonomyLevel, EffectKind, PolicyKind, ProposalState, Role
from contracts.errors import ApprovalInvalid, NotFound, RoleRequired, UserInputError
from contracts.evidence import EvidenceRef


def bound_hash(kind: EffectKind, payload: Mapping[str, Any], diff: str, base_state: str, expires_at: float) -> str:
    """What an approval allows: exactly this kind, payload, diff and base state, until then, and nothing else."""
    until = datetime.fromtimestamp(expires_at, tz=UTC).isoformat()  # to the microsecond, as it is stored
    content = {"kind": kind.value, "payload": payload, "diff": diff, "base_state": base_state, "expires_at": until}
    return content_hash(content)


class Proposals:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, proposal: NewProposal) -> Proposal:
        """Content-addressed: the same content is the same proposal, decided or not, and its text cannot change.

        Only when it had expired unused does putting it again open it with the new expiry, and so with another hash.
        """
        with self._database.begin() as connection:
            now = self._database.clock()
            _expire(connection, now)
            return load_proposal(connection, _put(connection, proposal, now, self._database.owner))

    def get(self, proposal_id: str) -> Proposal:
        """Raises NotFound."""
        with self._database.begin() as connection:
            _expire(connection, self._database.clock())
            return load_proposal(connection, proposal_id)

    def current(self, proposal_id: str) -> Proposal:
        """The proposal, or the last of the edits that took its place. Raises NotFound."""
        proposal = self.get(proposal_id)
        while proposal.replaced_by is not None:
            proposal = self.get(proposal.replaced_by)
        return proposal

    def list(self, state: ProposalState | None = None, investigation_id: str | None = None) -> builtins.list[Proposal]:
        """Oldest first."""
        query = sa.select(ProposalRow.__table__).order_by(ProposalRow.created_at, ProposalRow.id)
        if state is not None:
            query = query.where(ProposalRow.state == state)
        if investigation_id is not None:
            query = query.where(ProposalRow.investigation_id == investigation_id)
        with self._database.begin() as connection:
            _expire(connection, self._database.clock())
            return [Proposal(**row._mapping) for row in connection.execute(query)]

    def approved_without_case(self, now: float) -> builtins.list[Proposal]:
        """Those that no case waits for and that nobody carried out yet: whoever sees them asks for their effects."""
        unused = sa.select(ApprovalRow.id).where(ApprovalRow.proposal_id == ProposalRow.id, ApprovalRow.used_by == "")
        query = sa.select(ProposalRow.__table__).where(
            ProposalRow.state == ProposalState.APPROVED,
            ProposalRow.investigation_id.is_(None),
            ProposalRow.kind != EffectKind.NEXT_STAGE,  # the store itself passes it
            unused.exists(),
        )
        with self._database.begin() as connection:
            _expire(connection, now)
            return [Proposal(**row._mapping) for row in connection.execute(query.order_by(ProposalRow.id))]

    def approve(
        self,
        proposal_id: str,
        actor: str,
        role: Role,
        comment: str,
        at: float,
        bound_hash: str | None = None,  # what the person saw; another content is refused
    ) -> Approval:
        """Allow it once, until the proposal expires. The decision goes to the ledger with the evidence shown.

        Where a policy asks for four eyes, the first approval alone allows nothing: the proposal stays open for another
        person. Raises RoleRequired below reviewer, ApprovalInvalid when it is decided, expired, not what the person
        saw, or approved by the same person before.
        """
        comment = redact(comment)
        with self._database.begin() as connection:
            proposal = _decide(connection, proposal_id, role, at, bound_hash)
            earlier = _unused(connection, proposal_id)
            if any(each.actor.casefold() == actor.casefold() for each in earlier):
                raise ApprovalInvalid(
                    f"{actor} has approved {proposal_id} already", remedy="another reviewer has to look at it too"
                )
            approval = _add_approval(connection, proposal, actor, comment, at)
            persons = [*(each.actor for each in earlier), actor]
            needed = reviewers_needed(connection, proposal.kind)
            state = ProposalState.APPROVED if len(persons) >= needed else ProposalState.OPEN
            _record(connection, proposal, state, ", ".join(persons), comment, at, action="approved", actor=actor)
        return approval

    def approve_by_policy(self, proposal_id: str, loop: str, at: float) -> Approval | None:
        """Approve it in the name of the admin who let `loop` act, when that policy lists its kind and its budget does.

        None when a person has to decide: no such policy, its budget is spent, or four eyes are asked for.
        """
        with self._database.begin() as connection:
            proposal = load_proposal(connection, proposal_id, lock=True)
            if proposal.state is not ProposalState.OPEN or proposal.expires_at <= at:
                return None
            _require_content(proposal, None)
            policy = load_policy(connection, PolicyKind.AUTONOMY, loop)
            if policy is None or policy.level is None or not policy.level.includes(AutonomyLevel.ACT):
                return None
            if proposal.kind.value not in policy.effects or reviewers_needed(connection, proposal.kind) > 1:
                return None
            budget = load_budget(connection, policy.budget_id, lock=True)
            if budget is None or budget.closed or budget.reruns_left < 1 or (budget.cpu_s and budget.cpu_s_left <= 0):
                return None
            actor, comment = f"policy:{policy.id}", f"set by {policy.set_by}: {policy.reason}"
            approval = _add_approval(connection, proposal, actor, comment, at, policy_id=policy.id)
            reserve_share(connection, policy.budget_id, reserved_for(approval.id))
            who = f"policy {policy.id}, set by {policy.set_by}"
            _record(connection, proposal, ProposalState.APPROVED, who, comment, at, action="approved", actor=actor)
        return approval

    def reject(
        self, proposal_id: str, actor: str, role: Role, comment: str, at: float, bound_hash: str | None = None
    ) -> Proposal:
        """Raises as `approve` does."""
        with self._database.begin() as connection:
            proposal = _decide(connection, proposal_id, role, at, bound_hash)
            return _decline(connection, proposal, ProposalState.REJECTED, actor, comment, at)

    def ask_changes(
        self, proposal_id: str, actor: str, role: Role, comment: str, at: float, bound_hash: str | None = None
    ) -> Proposal:
        """It is not carried out as it is; `comment` says what should be otherwise (UserInputError without).

        Raises as `approve` does.
        """
        if not comment.strip():
            raise UserInputError("nothing says what should change", remedy="add a comment")
        with self._database.begin() as connection:
            proposal = _decide(connection, proposal_id, role, at, bound_hash)
            return _decline(connection, proposal, ProposalState.CHANGES_ASKED, actor, comment, at)

    def replace(
        self, proposal_id: str, edited: NewProposal, actor: str, role: Role, comment: str, at: float, bound_hash: str
    ) -> Proposal:
        """A new, open proposal `edited` takes the place of the old one; each names the other.

        Raises as `approve` does, and UserInputError when the edit changes nothing.
        """
        with self._database.begin() as connection:
            proposal = _decide(connection, proposal_id, role, at, bound_hash)
            if (proposal.investigation_id, proposal.kind) != (edited.investigation_id, edited.kind):
                raise UserInputError("an edit keeps case and kind", remedy="reject it and propose something else")
            if _content(proposal) == _content(edited):
                raise UserInputError("the edit changes nothing", remedy="change a field, or approve it as it is")
            new_id = _put(connection, edited, self._database.clock(), self._database.owner, replaces=proposal_id)
            link = sa.update(ProposalRow).where(ProposalRow.id == proposal_id).values(replaced_by=new_id)
            connection.execute(link)
            _decline(connection, proposal, ProposalState.SUPERSEDED, actor, comment, at, {"replaced_by": new_id})
            return load_proposal(connection, new_id)

    def approvals(self, proposal_id: str) -> builtins.list[Approval]:
        """Every approval ever given, oldest first."""
        query = sa.select(ApprovalRow.__table__).where(ApprovalRow.proposal_id == proposal_id).order_by(ApprovalRow.id)
        with self._database.read() as connection:
            return [Approval(**row._mapping) for row in connection.execute(query)]


def load_proposal(connection: sa.Connection, proposal_id: str, *, lock: bool = False) -> Proposal:
    """Raises NotFound. `lock`: nobody else decides on it until the transaction ends."""
    query = sa.select(ProposalRow.__table__).where(ProposalRow.id == proposal_id)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"no proposal '{proposal_id}'", remedy="`lathe proposals list` shows them")
    return Proposal(**row._mapping)


def reserved_for(approval_id: int) -> str:
    """Key under which a policy's approval holds its share of the policy's budget until it is used."""
    return f"approval:{approval_id}"


def _content(proposal: NewProposal) -> str:
    """All but the expiry."""
    return bound_hash(proposal.kind, proposal.payload, proposal.diff, proposal.base_state, 0.0)


def _put(connection: sa.Connection, proposal: NewProposal, now: float, opener: str, replaces: str | None = None) -> str:
    """Its id; an edit has one of its own even when something with the same content was decided before."""
    edit_of = [] if replaces is None else [replaces]
    proposal_id = "pr-" + content_hash([proposal.investigation_id, _content(proposal), *edit_of])[:12]
    bound = bound_hash(proposal.kind, proposal.payload, proposal.diff, proposal.base_state, proposal.expires_at)
    fields = {f.name: getattr(proposal, f.name) for f in dataclasses.fields(NewProposal)}
    fields |= {name: redact(fields[name]) for name in ("title", "risk", "verification")}
    fields["owner"] = sa.func.coalesce(proposal.owner or None, _owner_of_case(proposal.investigation_id), opener)
    fresh = {"state": ProposalState.OPEN, "decided_by": "", "decided_at": None, "comment": "", "bound_hash": bound}
    statement = insert(ProposalRow).values(id=proposal_id, created_at=now, replaces=replaces, **fields, **fresh)
    reopen = statement.on_conflict_do_update(
        index_elements=["id"],
        set_={"expires_at": proposal.expires_at, **fresh},
        where=(ProposalRow.state == ProposalState.EXPIRED) & (statement.excluded.expires_at > now),
    )
    connection.execute(reopen)
    return proposal_id


def _owner_of_case(investigation_id: str | None) -> sa.ScalarSelect[str]:
    query = sa.select(sa.func.coalesce(RunRow.owner, InvestigationRow.owner))
    query = query.outerjoin_from(InvestigationRow, RunRow, InvestigationRow.run_id == RunRow.id)
    return query.where(InvestigationRow.id == investigation_id).scalar_subquery()


_USED = sa.select(ApprovalRow.id).where(
    ApprovalRow.proposal_id == ProposalRow.id, ApprovalRow.used_by.not_in(["", *ProposalState])
)
_END = (  # made once: every look at proposals begins with it
    sa.update(ProposalRow)
    .where(
        ProposalRow.expires_at <= sa.bindparam("now", type_=ProposalRow.__table__.columns["expires_at"].type),
        ProposalRow.state.in_([ProposalState.OPEN, ProposalState.APPROVED]),
        ~_USED.exists(),
    )
    .values(state=ProposalState.EXPIRED)
    .returning(ProposalRow.id)
)


def _expire(connection: sa.Connection, now: float) -> None:
    """Open proposals end at their expiry; so do approved ones whose approval was never used."""
    ended = connection.execute(_END, {"now": now}).scalars().all()
    if ended:
        _void(connection, ended, ProposalState.EXPIRED)


def _void(connection: sa.Connection, proposal_ids: Sequence[str], why: ProposalState) -> None:
    """Approvals that nobody used allow nothing any more; what a policy reserved for them goes back."""
    unused = sa.update(ApprovalRow).where(ApprovalRow.proposal_id.in_(proposal_ids), ApprovalRow.used_by == "")
    for approval_id in connection.execute(unused.values(used_by=why.value).returning(ApprovalRow.id)).scalars().all():
        release_reservation(connection, reserved_for(approval_id))


def _unused(connection: sa.Connection, proposal_id: str) -> list[Approval]:
    query = sa.select(ApprovalRow.__table__).where(ApprovalRow.proposal_id == proposal_id, ApprovalRow.used_by == "")
    return [Approval(**row._mapping) for row in connection.execute(query.order_by(ApprovalRow.id))]


def _add_approval(
    connection: sa.Connection, proposal: Proposal, actor: str, comment: str, at: float, policy_id: int | None = None
) -> Approval:
    values: dict[str, Any] = {
        "proposal_id": proposal.id,
        "bound_hash": proposal.bound_hash,
        "actor": actor,
        "comment": comment,
        "at": at,
        "expires_at": proposal.expires_at,
        "used_by": "",
        "policy_id": policy_id,
    }
    new_id = connection.execute(sa.insert(ApprovalRow).values(**values).returning(ApprovalRow.id)).scalar_one()
    return Approval(id=new_id, **values)


def _decide(connection: sa.Connection, proposal_id: str, role: Role, at: float, seen_hash: str | None) -> Proposal:
    """The locked proposal, when it may be decided now by this role."""
    if not role.includes(Role.REVIEWER):
        raise RoleRequired(
            f"a {role.value} may not decide proposals", remedy="ask somebody with the role reviewer or admin"
        )
    proposal = load_proposal(connection, proposal_id, lock=True)
    if proposal.state is not ProposalState.OPEN:
        raise ApprovalInvalid(
            f"proposal {proposal_id} is {proposal.state.value}, not open", remedy="decide an open proposal"
        )
    if proposal.expires_at <= at:
        raise ApprovalInvalid(
            f"proposal {proposal_id} has expired", remedy="let the loop propose it again on the present state"
        )
    _require_content(proposal, seen_hash)
    return proposal


def _require_content(proposal: Proposal, seen_hash: str | None) -> None:
    present = bound_hash(proposal.kind, proposal.payload, proposal.diff, proposal.base_state, proposal.expires_at)
    if present != proposal.bound_hash or seen_hash not in (None, present):
        raise ApprovalInvalid(
            f"proposal {proposal.id} is not what was shown: its content has another hash",
            remedy="look at the proposal again and decide on what it says now",
        )


def _decline(
    connection: sa.Connection,
    proposal: Proposal,
    state: ProposalState,
    actor: str,
    comment: str,
    at: float,
    detail: Mapping[str, Any] | None = None,
) -> Proposal:
    """It ends without being carried out; a first approval, where two were needed, ends with it."""
    _void(connection, [proposal.id], state)
    said = redact(comment)
    _record(connection, proposal, state, actor, said, at, action=state.value, actor=actor, detail=detail)
    return load_proposal(connection, proposal.id)


def _record(
    connection: sa.Connection,
    proposal: Proposal,
    state: ProposalState,
    decided_by: str,
    comment: str,
    at: float,
    *,
    action: str,
    actor: str,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """The decision in the proposal, and who took it in the ledger."""
    decision = {"state": state, "decided_by": decided_by, "decided_at": at, "comment": comment}
    connection.execute(sa.update(ProposalRow).where(ProposalRow.id == proposal.id).values(**decision))
    append_entry(
        connection,
        actor=actor,
        action=action,
        subject=str(EvidenceRef(kind="proposal", id=proposal.id)),
        detail={"comment": comment, "bound_hash": proposal.bound_hash, "state": state.value, **(detail or {})},
        evidence=proposal.evidence,
        at=at,
    )
