"""What the control plane does by itself at intervals, and how far it has looked."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, UnixTime, Word
from contracts.enums import RunState, ScheduleAction


class ScheduleRow(Base):
    """Never deleted; its revocation ends it. `last_message` is "" until it was done once."""

    __tablename__ = "schedule"
    __table_args__ = (sa.Index("ix_schedule_next_at", "next_at", postgresql_where=sa.text("revoked_at IS NULL")),)

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    action: Mapped[ScheduleAction] = mapped_column(Word(ScheduleAction))
    target: Mapped[str] = mapped_column(sa.Text)
    every_s: Mapped[float] = mapped_column(sa.Double)
    older_than_s: Mapped[float] = mapped_column(sa.Double)
    reason: Mapped[str] = mapped_column(sa.Text)
    set_by: Mapped[str] = mapped_column(sa.Text)
    set_at: Mapped[float] = mapped_column(UnixTime)
    next_at: Mapped[float] = mapped_column(UnixTime)
    last_at: Mapped[float | None] = mapped_column(UnixTime)
    last_ok: Mapped[bool]
    last_message: Mapped[str] = mapped_column(sa.Text)
    revoked_by: Mapped[str] = mapped_column(sa.Text)
    revoked_at: Mapped[float | None] = mapped_column(UnixTime)


class WatchMarkRow(Base):
    __tablename__ = "watch_mark"

    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(sa.BigInteger)
    state: Mapped[RunState] = mapped_column(Word(RunState))
    looked_at: Mapped[float] = mapped_column(UnixTime)
