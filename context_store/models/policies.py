"""What persons allow or forbid in general, and the experiments that move on their approvals."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, UnixTime, Word, Words
from contracts.enums import AutonomyLevel, PolicyKind, Stage


class PolicyRow(Base):
    """Never changed but by its revocation. One per kind and loop is in force; `loop` is "" where it means all."""

    __tablename__ = "policy"
    __table_args__ = (
        sa.Index("uq_policy_in_force", "kind", "loop", unique=True, postgresql_where=sa.text("revoked_at IS NULL")),
    )

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    kind: Mapped[PolicyKind] = mapped_column(Word(PolicyKind))
    loop: Mapped[str] = mapped_column(sa.Text)
    level: Mapped[AutonomyLevel | None] = mapped_column(Word(AutonomyLevel))
    effects: Mapped[tuple[str, ...]] = mapped_column(Words)
    cpu_s: Mapped[float] = mapped_column(sa.Double)
    num_effects: Mapped[int]
    reason: Mapped[str] = mapped_column(sa.Text)
    set_by: Mapped[str] = mapped_column(sa.Text)
    set_at: Mapped[float] = mapped_column(UnixTime)
    revoked_by: Mapped[str] = mapped_column(sa.Text)
    revoked_at: Mapped[float | None] = mapped_column(UnixTime)


class ExperimentRow(Base):
    """`sequence` counts the edges that were passed."""

    __tablename__ = "experiment"

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    title: Mapped[str] = mapped_column(sa.Text)
    stage: Mapped[Stage] = mapped_column(Word(Stage))
    iteration: Mapped[int]
    sequence: Mapped[int]
    budget_id: Mapped[str] = mapped_column(sa.ForeignKey("budget.id"))
    opened_by: Mapped[str] = mapped_column(sa.Text)
    opened_at: Mapped[float] = mapped_column(UnixTime)


class ExperimentStepRow(Base):
    """One edge that was passed, with what allowed it: the approved proposal, or the reservation."""

    __tablename__ = "experiment_step"

    experiment_id: Mapped[str] = mapped_column(sa.ForeignKey("experiment.id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True)
    before: Mapped[Stage] = mapped_column(Word(Stage))
    after: Mapped[Stage] = mapped_column(Word(Stage))
    iteration: Mapped[int]
    proposal_id: Mapped[str | None] = mapped_column(sa.ForeignKey("proposal.id"))
    reservation_key: Mapped[str] = mapped_column(sa.Text)
    note: Mapped[str] = mapped_column(sa.Text)
    actor: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)
