"""Projects, runs, their segments and what one segment reports once or now and then."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, CanonicalJson, UnixTime, Word
from context_store.records import UNKNOWN_OWNER, Json
from contracts.enums import RunRole, RunState, TimelineKind
from contracts.events import Scalar


class ProjectRow(Base):
    __tablename__ = "project"
    __table_args__ = (sa.CheckConstraint("owner <> ''", name="project_has_an_owner"),)

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    path: Mapped[str] = mapped_column(sa.Text)
    entry: Mapped[str] = mapped_column(sa.Text)
    backend: Mapped[str] = mapped_column(sa.Text)
    owner: Mapped[str] = mapped_column(sa.Text, server_default=UNKNOWN_OWNER)


class RunRow(Base):
    __tablename__ = "run"
    __table_args__ = (
        sa.Index(None, "project_id", "created_at"),
        sa.Index(None, "created_at", "id"),
        sa.CheckConstraint("owner <> ''", name="run_has_an_owner"),
    )

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id"))
    name: Mapped[str] = mapped_column(sa.Text)
    role: Mapped[RunRole] = mapped_column(Word(RunRole))
    folder: Mapped[str] = mapped_column(sa.Text)
    parent_run_id: Mapped[str | None] = mapped_column(sa.ForeignKey("run.id"))
    parent_step: Mapped[int | None] = mapped_column(sa.BigInteger)
    investigation_id: Mapped[str | None] = mapped_column(sa.Text, index=True)
    state: Mapped[RunState] = mapped_column(Word(RunState))
    message: Mapped[str] = mapped_column(sa.Text)
    last_step: Mapped[int] = mapped_column(sa.BigInteger)
    created_at: Mapped[float] = mapped_column(UnixTime)
    number: Mapped[int] = mapped_column(sa.Integer, sa.Identity(), unique=True)
    owner: Mapped[str] = mapped_column(sa.Text, server_default=UNKNOWN_OWNER)


class SegmentRow(Base):
    __tablename__ = "segment"

    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"), primary_key=True)
    number: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    start_step: Mapped[int] = mapped_column(sa.BigInteger)
    last_step: Mapped[int] = mapped_column(sa.BigInteger)
    code_version: Mapped[str] = mapped_column(sa.Text, index=True)
    seed: Mapped[int] = mapped_column(sa.BigInteger)
    dp_size: Mapped[int]
    start_checkpoint: Mapped[str] = mapped_column(sa.Text)
    environment: Mapped[dict[str, Scalar]] = mapped_column(CanonicalJson)
    started_at: Mapped[float] = mapped_column(UnixTime)
    ended_at: Mapped[float | None] = mapped_column(UnixTime)
    end_reason: Mapped[str] = mapped_column(sa.Text)
    message: Mapped[str] = mapped_column(sa.Text)
    remedy: Mapped[str] = mapped_column(sa.Text)


class ConfigValueRow(Base):
    """One configuration field from one step on. `source`: declared or effective; `value`: JSON text."""

    __tablename__ = "config_value"
    __table_args__ = (sa.Index(None, "key", "run_id"),)

    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"), primary_key=True)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    source: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    step: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    value: Mapped[Scalar] = mapped_column(CanonicalJson)


class CheckpointRow(Base):
    __tablename__ = "checkpoint"

    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"), primary_key=True)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    step: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    path: Mapped[str] = mapped_column(sa.Text, index=True)
    sha256: Mapped[str] = mapped_column(sa.Text, index=True)
    size_bytes: Mapped[int] = mapped_column(sa.BigInteger)


class DataReadRow(Base):
    __tablename__ = "data_read"

    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"), primary_key=True)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    step: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    sample_hash: Mapped[str] = mapped_column(sa.Text)
    position: Mapped[int] = mapped_column(sa.BigInteger)


class ExecutedFileRow(Base):
    """One project file a segment imported (`sha256`, "" when only lines are known) and the lines it ran."""

    __tablename__ = "executed_file"

    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"), primary_key=True)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    path: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    sha256: Mapped[str] = mapped_column(sa.Text)
    lines: Mapped[list[int]] = mapped_column(ARRAY(sa.Integer))


class ShipmentRow(Base):
    """How far a segment's log was loaded. Written in the transaction that loads."""

    __tablename__ = "shipment"

    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"), primary_key=True)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    offset_bytes: Mapped[int] = mapped_column(sa.BigInteger)


class TimelineRow(Base):
    __tablename__ = "timeline_event"
    __table_args__ = (sa.UniqueConstraint("run_id", "segment", "step", "kind", "title"),)

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"))
    segment: Mapped[int] = mapped_column(sa.SmallInteger)
    step: Mapped[int] = mapped_column(sa.BigInteger)
    kind: Mapped[TimelineKind] = mapped_column(Word(TimelineKind))
    title: Mapped[str] = mapped_column(sa.Text)
    detail: Mapped[Json] = mapped_column(CanonicalJson)
    at: Mapped[float] = mapped_column(UnixTime)
