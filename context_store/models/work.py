"""What may be done and what is done: proposals, approvals, effects, budgets."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, CanonicalJson, EvidenceList, UnixTime, Word
from context_store.records import UNKNOWN_OWNER, Evidence, Json
from contracts.enums import EffectKind, EffectState, ProposalState


class ProposalRow(Base):
    __tablename__ = "proposal"
    __table_args__ = (sa.CheckConstraint("owner <> ''", name="proposal_has_an_owner"),)

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    bound_hash: Mapped[str] = mapped_column(sa.Text)
    investigation_id: Mapped[str | None] = mapped_column(sa.ForeignKey("investigation.id"), index=True)
    kind: Mapped[EffectKind] = mapped_column(Word(EffectKind))
    title: Mapped[str] = mapped_column(sa.Text)
    payload: Mapped[Json] = mapped_column(CanonicalJson)
    diff: Mapped[str] = mapped_column(sa.Text)
    base_state: Mapped[str] = mapped_column(sa.Text)
    risk: Mapped[str] = mapped_column(sa.Text)
    verification: Mapped[str] = mapped_column(sa.Text)
    evidence: Mapped[Evidence] = mapped_column(EvidenceList)
    state: Mapped[ProposalState] = mapped_column(Word(ProposalState), index=True)
    created_at: Mapped[float] = mapped_column(UnixTime)
    expires_at: Mapped[float] = mapped_column(UnixTime)
    decided_by: Mapped[str] = mapped_column(sa.Text)
    decided_at: Mapped[float | None] = mapped_column(UnixTime)
    comment: Mapped[str] = mapped_column(sa.Text)
    replaces: Mapped[str | None] = mapped_column(sa.ForeignKey("proposal.id"))
    replaced_by: Mapped[str | None] = mapped_column(sa.ForeignKey("proposal.id"))
    owner: Mapped[str] = mapped_column(sa.Text, server_default=UNKNOWN_OWNER)


class ApprovalRow(Base):
    """At most one unused approval per proposal and person; `used_by` is set once: by the claim that uses it up, by
    expiry, or by what ended the proposal."""

    __tablename__ = "approval"
    __table_args__ = (
        sa.Index("uq_approval_unused", "proposal_id", "actor", unique=True, postgresql_where=sa.text("used_by = ''")),
    )

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    proposal_id: Mapped[str] = mapped_column(sa.ForeignKey("proposal.id"), index=True)
    bound_hash: Mapped[str] = mapped_column(sa.Text)
    actor: Mapped[str] = mapped_column(sa.Text)
    comment: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)
    expires_at: Mapped[float] = mapped_column(UnixTime)
    used_by: Mapped[str] = mapped_column(sa.Text)
    policy_id: Mapped[int | None] = mapped_column(sa.ForeignKey("policy.id"))


class EffectRow(Base):
    __tablename__ = "effect"
    __table_args__ = (sa.Index(None, "state", "ordinal"),)

    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), unique=True)
    kind: Mapped[EffectKind] = mapped_column(Word(EffectKind))
    payload: Mapped[Json] = mapped_column(CanonicalJson)
    investigation_id: Mapped[str | None] = mapped_column(sa.ForeignKey("investigation.id"), index=True)
    proposal_id: Mapped[str | None] = mapped_column(sa.ForeignKey("proposal.id"))
    actor: Mapped[str] = mapped_column(sa.Text)
    state: Mapped[EffectState] = mapped_column(Word(EffectState))
    worker: Mapped[str] = mapped_column(sa.Text)
    lease_until: Mapped[float | None] = mapped_column(UnixTime)
    attempt: Mapped[int]
    result: Mapped[Json] = mapped_column(CanonicalJson)
    message: Mapped[str] = mapped_column(sa.Text)
    remedy: Mapped[str] = mapped_column(sa.Text)
    requested_at: Mapped[float] = mapped_column(UnixTime)
    finished_at: Mapped[float | None] = mapped_column(UnixTime)


class BudgetRow(Base):
    """A child's limits are a reservation in its parent."""

    __tablename__ = "budget"

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    parent_id: Mapped[str | None] = mapped_column(sa.ForeignKey("budget.id"))
    cpu_s: Mapped[float] = mapped_column(sa.Double)
    reruns: Mapped[int]
    tokens: Mapped[int] = mapped_column(sa.BigInteger)
    usd: Mapped[float] = mapped_column(sa.Double)
    wall_s: Mapped[float] = mapped_column(sa.Double)
    closed: Mapped[bool]


class ReservationRow(Base):
    """Holds what was reserved, and once it is `settled` what was spent."""

    __tablename__ = "reservation"

    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    budget_id: Mapped[str] = mapped_column(sa.ForeignKey("budget.id"), index=True)
    cpu_s: Mapped[float] = mapped_column(sa.Double)
    reruns: Mapped[int]
    tokens: Mapped[int] = mapped_column(sa.BigInteger)
    usd: Mapped[float] = mapped_column(sa.Double)
    wall_s: Mapped[float] = mapped_column(sa.Double)
    settled: Mapped[bool]
