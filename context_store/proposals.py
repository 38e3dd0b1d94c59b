"""Proposals and the decisions people take on them. `approve` and `reject` are the only writers of approvals."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.canonical import content_hash
from context_store.database import Database
from context_store.ledger import append_entry
from context_store.models import ApprovalRow, ProposalRow
from context_store.records import Approval, NewProposal, Proposal
from contracts.enums import EffectKind, ProposalState, Role
from contracts.errors import ApprovalInvalid, NotFound, RoleRequired

EXPIRED = "expired"  # what an approval that nobody used in time was "used" by


def bound_hash(kind: EffectKind, payload: Mapping[str, Any], diff: str, base_state: str) -> str:
    """What an approval allows: exactly this kind, payload, diff and base state, and nothing else."""
    return content_hash({"kind": kind.value, "payload": payload, "diff": diff, "base_state": base_state})


class Proposals:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, proposal: NewProposal) -> Proposal:
        """Content-addressed: the same content is the same proposal, decided or not, and its text cannot change.

        Only when it had expired unused does putting it again open it with the new expiry.
        """
        bound = bound_hash(proposal.kind, proposal.payload, proposal.diff, proposal.base_state)
        proposal_id = "pr-" + content_hash([proposal.investigation_id, bound])[:12]
        fields = {f.name: getattr(proposal, f.name) for f in dataclasses.fields(NewProposal)}
        fresh = {"state": ProposalState.OPEN, "decided_by": "", "decided_at": None, "comment": ""}
        now = self._database.clock()
        statement = insert(ProposalRow).values(id=proposal_id, bound_hash=bound, created_at=now, **fields, **fresh)
        reopen = statement.on_conflict_do_update(
            index_elements=["id"],
            set_={"expires_at": proposal.expires_at, **fresh},
            where=(ProposalRow.state == ProposalState.EXPIRED) & (statement.excluded.expires_at > now),
        )
        with self._database.begin() as connection:
            _expire(connection, now)
            connection.execute(reopen)
        return self.get(proposal_id)

    def get(self, proposal_id: str) -> Proposal:
        """Raises NotFound."""
        with self._database.begin() as connection:
            _expire(connection, self._database.clock())
            return _load(connection, proposal_id)

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

        Raises RoleRequired below reviewer, ApprovalInvalid when it is decided, expired or not what the person saw.
        """
        with self._database.begin() as connection:
            proposal = _decide(connection, proposal_id, role, at, bound_hash)
            values: dict[str, Any] = {
                "proposal_id": proposal_id,
                "bound_hash": proposal.bound_hash,
                "actor": actor,
                "comment": comment,
                "at": at,
                "expires_at": proposal.expires_at,
                "used_by": "",
            }
            new_id = connection.execute(sa.insert(ApprovalRow).values(**values).returning(ApprovalRow.id)).scalar_one()
            _record(connection, proposal, ProposalState.APPROVED, actor, comment, at)
        return Approval(id=new_id, **values)

    def reject(
        self, proposal_id: str, actor: str, role: Role, comment: str, at: float, bound_hash: str | None = None
    ) -> Proposal:
        """Raises as `approve` does."""
        with self._database.begin() as connection:
            proposal = _decide(connection, proposal_id, role, at, bound_hash)
            _record(connection, proposal, ProposalState.REJECTED, actor, comment, at)
            return _load(connection, proposal_id)

    def approvals(self, proposal_id: str) -> builtins.list[Approval]:
        """Every approval ever given, oldest first."""
        query = sa.select(ApprovalRow.__table__).where(ApprovalRow.proposal_id == proposal_id).order_by(ApprovalRow.id)
        with self._database.begin() as connection:
            return [Approval(**row._mapping) for row in connection.execute(query)]


def _load(connection: sa.Connection, proposal_id: str, *, lock: bool = False) -> Proposal:
    query = sa.select(ProposalRow.__table__).where(ProposalRow.id == proposal_id)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"no proposal '{proposal_id}'", remedy="`lathe proposals list` shows them")
    return Proposal(**row._mapping)


def _expire(connection: sa.Connection, now: float) -> None:
    """Open proposals end at their expiry; so do approved ones whose approval was never used."""
    used = sa.select(ApprovalRow.id).where(ApprovalRow.proposal_id == ProposalRow.id, ApprovalRow.used_by != "")
    over = sa.update(ProposalRow).where(
        ProposalRow.expires_at <= now,
        ProposalRow.state.in_([ProposalState.OPEN, ProposalState.APPROVED]),
        ~used.exists(),
    )
    ended = connection.execute(over.values(state=ProposalState.EXPIRED).returning(ProposalRow.id)).scalars().all()
    if ended:
        unused = sa.update(ApprovalRow).where(ApprovalRow.proposal_id.in_(ended), ApprovalRow.used_by == "")
        connection.execute(unused.values(used_by=EXPIRED))


def _decide(connection: sa.Connection, proposal_id: str, role: Role, at: float, seen_hash: str | None) -> Proposal:
    """The locked proposal, when it may be decided now by this role."""
    if not role.includes(Role.REVIEWER):
        raise RoleRequired(
            f"a {role.value} may not decide proposals", remedy="ask somebody with the role reviewer or admin"
        )
    proposal = _load(connection, proposal_id, lock=True)
    if proposal.state is not ProposalState.OPEN:
        raise ApprovalInvalid(
            f"proposal {proposal_id} is {proposal.state.value}, not open", remedy="decide an open proposal"
        )
    if proposal.expires_at <= at:
        raise ApprovalInvalid(
            f"proposal {proposal_id} has expired", remedy="let the loop propose it again on the present state"
        )
    present = bound_hash(proposal.kind, proposal.payload, proposal.diff, proposal.base_state)
    if present != proposal.bound_hash or seen_hash not in (None, present):
        raise ApprovalInvalid(
            f"proposal {proposal_id} is not what was shown: its content has another hash",
            remedy="look at the proposal again and decide on what it says now",
        )
    return proposal


def _record(
    connection: sa.Connection, proposal: Proposal, state: ProposalState, actor: str, comment: str, at: float
) -> None:
    decision = {"state": state, "decided_by": actor, "decided_at": at, "comment": comment}
    connection.execute(sa.update(ProposalRow).where(ProposalRow.id == proposal.id).values(**decision))
    append_entry(
        connection,
        actor=actor,
        action=state.value,
        subject=f"proposal:{proposal.id}",
        detail={"comment": comment, "bound_hash": proposal.bound_hash},
        evidence=proposal.evidence,
        at=at,
    )
