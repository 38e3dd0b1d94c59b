"""Threads of chat, and memory."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, CanonicalJson, EvidenceList, UnixTime, Word
from context_store.records import Evidence
from contracts.enums import MemoryKind


class ChatThreadRow(Base):
    """Names of a run and a case are kept as they were when the thread began; "" for none."""

    __tablename__ = "chat_thread"
    __table_args__ = (sa.Index(None, "investigation_id"),)

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    title: Mapped[str] = mapped_column(sa.Text)
    run_id: Mapped[str] = mapped_column(sa.Text)
    investigation_id: Mapped[str] = mapped_column(sa.Text)
    created_by: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[float] = mapped_column(UnixTime)


class ChatExchangeRow(Base):
    __tablename__ = "chat_exchange"
    __table_args__ = (sa.Index(None, "thread_id", "id"),)

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    thread_id: Mapped[str] = mapped_column(sa.ForeignKey("chat_thread.id", ondelete="CASCADE"))
    at: Mapped[float] = mapped_column(UnixTime)
    actor: Mapped[str] = mapped_column(sa.Text)
    question: Mapped[str] = mapped_column(sa.Text)
    answer: Mapped[Any] = mapped_column(CanonicalJson)


class MemoryRow(Base):
    """Append-only (a trigger holds that). `supersedes` is unique: what is remembered under a key is one line."""

    __tablename__ = "memory_entry"
    __table_args__ = (
        sa.CheckConstraint("author <> '' AND cardinality(evidence) > 0", name="memory_names_its_source"),
        sa.Index(
            "ix_memory_entry_first", "project_id", "key", unique=True, postgresql_where=sa.text("supersedes IS NULL")
        ),
    )

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    project_id: Mapped[str] = mapped_column(sa.Text)
    key: Mapped[str] = mapped_column(sa.Text)
    kind: Mapped[MemoryKind] = mapped_column(Word(MemoryKind))
    text: Mapped[str] = mapped_column(sa.Text)
    evidence: Mapped[Evidence] = mapped_column(EvidenceList)
    author: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)
    supersedes: Mapped[int | None] = mapped_column(sa.ForeignKey("memory_entry.id"), unique=True)
    retired: Mapped[bool]
