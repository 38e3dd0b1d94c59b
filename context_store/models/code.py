"""Git history: commits and hunks."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, UnixTime, Words


class CommitRow(Base):
    __tablename__ = "code_commit"
    __table_args__ = (sa.UniqueConstraint("project_id", "ordinal"),)

    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id"), primary_key=True)
    hash: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    parents: Mapped[tuple[str, ...]] = mapped_column(Words)
    author: Mapped[str] = mapped_column(sa.Text)
    committed_at: Mapped[float] = mapped_column(UnixTime)
    subject: Mapped[str] = mapped_column(sa.Text)
    ordinal: Mapped[int]


class HunkRow(Base):
    __tablename__ = "hunk"
    __table_args__ = (
        sa.ForeignKeyConstraint(["project_id", "commit"], ["code_commit.project_id", "code_commit.hash"]),
        sa.Index(None, "symbols", postgresql_using="gin"),
    )

    project_id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    commit: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    path: Mapped[str] = mapped_column(sa.Text)
    old_start: Mapped[int]
    old_lines: Mapped[int]
    new_start: Mapped[int]
    new_lines: Mapped[int]
    symbols: Mapped[tuple[str, ...]] = mapped_column(Words)
    text: Mapped[str] = mapped_column(sa.Text)
