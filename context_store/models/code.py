"""Git history: commits, hunks, and what a hunk bears on."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, UnixTime, Words


class CommitRow(Base):
    __tablename__ = "code_commit"
    __table_args__ = (
        sa.UniqueConstraint("project_id", "ordinal"),
        sa.Index(None, "hash", postgresql_ops={"hash": "text_pattern_ops"}),
    )

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
    old_path: Mapped[str] = mapped_column(sa.Text)
    old_start: Mapped[int]
    old_lines: Mapped[int]
    new_start: Mapped[int]
    new_lines: Mapped[int]
    symbols: Mapped[tuple[str, ...]] = mapped_column(Words)
    text: Mapped[str] = mapped_column(sa.Text)


class HunkFieldRow(Base):
    """A configuration field that the hunk reads. `how`: context_store.links."""

    __tablename__ = "hunk_field"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["project_id", "commit", "ordinal"], ["hunk.project_id", "hunk.commit", "hunk.ordinal"]
        ),
        sa.Index(None, "project_id", "field"),
    )

    project_id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    commit: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    field: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    how: Mapped[str] = mapped_column(sa.Text)


class HunkStatisticRow(Base):
    """A family of series (`max_vio/layers.*`) that the hunk bears on by its own names."""

    __tablename__ = "hunk_statistic"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["project_id", "commit", "ordinal"], ["hunk.project_id", "hunk.commit", "hunk.ordinal"]
        ),
        sa.Index(None, "project_id", "statistic"),
    )

    project_id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    commit: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    statistic: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    how: Mapped[str] = mapped_column(sa.Text)


class FieldStatisticRow(Base):
    """A family of series that a configuration field bears on."""

    __tablename__ = "field_statistic"
    __table_args__ = (sa.Index(None, "project_id", "statistic"),)

    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id"), primary_key=True)
    field: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    statistic: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    how: Mapped[str] = mapped_column(sa.Text)
