"""What people said about findings."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, UnixTime, Word
from contracts.enums import TriageKind


class TriageRow(Base):
    """Append-only: a trigger refuses UPDATE, DELETE and TRUNCATE. The last row of a subject counts."""

    __tablename__ = "triage_mark"
    __table_args__ = (sa.Index(None, "subject", "id"),)

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    subject: Mapped[str] = mapped_column(sa.Text)
    kind: Mapped[TriageKind] = mapped_column(Word(TriageKind))
    actor: Mapped[str] = mapped_column(sa.Text)
    comment: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)
    until: Mapped[float | None] = mapped_column(UnixTime)
