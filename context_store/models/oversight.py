"""Ledger, live feed and tokens."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, CanonicalJson, EvidenceList, UnixTime, Word
from context_store.records import Evidence, Json
from contracts.enums import Role


class LedgerRow(Base):
    """Append-only: a trigger refuses UPDATE, DELETE and TRUNCATE."""

    __tablename__ = "ledger_entry"
    __table_args__ = (sa.Index(None, "actor", "id"), sa.Index(None, "subject", "id"))

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    at: Mapped[float] = mapped_column(UnixTime)
    actor: Mapped[str] = mapped_column(sa.Text)
    action: Mapped[str] = mapped_column(sa.Text)
    subject: Mapped[str] = mapped_column(sa.Text)
    detail: Mapped[Json] = mapped_column(CanonicalJson)
    evidence: Mapped[Evidence] = mapped_column(EvidenceList)


class ActivityRow(Base):
    __tablename__ = "activity"

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    at: Mapped[float] = mapped_column(UnixTime)
    kind: Mapped[str] = mapped_column(sa.Text)
    text: Mapped[str] = mapped_column(sa.Text)
    investigation_id: Mapped[str | None] = mapped_column(sa.Text, index=True)
    run_id: Mapped[str | None] = mapped_column(sa.Text)
    detail: Mapped[Json] = mapped_column(CanonicalJson)


class TokenRow(Base):
    """Only the hash of a token's secret is kept."""

    __tablename__ = "token"

    secret_sha256: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    name: Mapped[str] = mapped_column(sa.Text)
    role: Mapped[Role] = mapped_column(Word(Role))
    created_at: Mapped[float] = mapped_column(UnixTime)
    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), unique=True)
    created_by: Mapped[str] = mapped_column(sa.Text)
    expires_at: Mapped[float | None] = mapped_column(UnixTime)
    revoked_by: Mapped[str] = mapped_column(sa.Text)
    revoked_at: Mapped[float | None] = mapped_column(UnixTime)
