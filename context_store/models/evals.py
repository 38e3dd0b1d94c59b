"""Benchmarks and scores. A score without lineage or owner cannot be stored: the database refuses it too."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, CanonicalJson, UnixTime, Words
from context_store.records import Json


class BenchmarkRow(Base):
    __tablename__ = "benchmark"
    __table_args__ = (sa.CheckConstraint("owner <> ''", name="benchmark_has_an_owner"),)

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    title: Mapped[str] = mapped_column(sa.Text)
    sha256: Mapped[str] = mapped_column(sa.Text)
    num_items: Mapped[int]
    origin: Mapped[str] = mapped_column(sa.Text)
    owner: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)


class BenchmarkItemRow(Base):
    __tablename__ = "benchmark_item"

    benchmark_id: Mapped[str] = mapped_column(sa.ForeignKey("benchmark.id"), primary_key=True)
    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    text: Mapped[str] = mapped_column(sa.Text)


class ScoreRow(Base):
    """`identity_key`: hash of everything that has to be equal before two scores may be compared."""

    __tablename__ = "score"
    __table_args__ = (
        sa.CheckConstraint("checkpoint <> '' AND recipe <> '' AND protocol <> ''", name="score_has_lineage"),
        sa.CheckConstraint("owner <> ''", name="score_has_an_owner"),
        sa.Index(None, "benchmark", "metric"),
        sa.Index(None, "run_id", "step"),
    )

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    content_key: Mapped[str] = mapped_column(sa.Text, unique=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id"), index=True)
    run_id: Mapped[str | None] = mapped_column(sa.ForeignKey("run.id"))
    segment: Mapped[int | None] = mapped_column(sa.SmallInteger)
    step: Mapped[int | None] = mapped_column(sa.BigInteger)
    checkpoint: Mapped[str] = mapped_column(sa.Text)
    recipe: Mapped[str] = mapped_column(sa.Text)
    benchmark: Mapped[str] = mapped_column(sa.Text)
    metric: Mapped[str] = mapped_column(sa.Text)
    protocol: Mapped[str] = mapped_column(sa.Text)
    shots: Mapped[int | None]
    template: Mapped[str | None] = mapped_column(sa.Text)
    stop_set: Mapped[tuple[str, ...] | None] = mapped_column(Words)
    extractor: Mapped[str | None] = mapped_column(sa.Text)
    harness: Mapped[str] = mapped_column(sa.Text)
    harness_version: Mapped[str | None] = mapped_column(sa.Text)
    settings: Mapped[Json] = mapped_column(CanonicalJson)
    settings_hash: Mapped[str] = mapped_column(sa.Text)
    identity_key: Mapped[str] = mapped_column(sa.Text)
    value: Mapped[float] = mapped_column(sa.Double)
    stderr: Mapped[float | None] = mapped_column(sa.Double)
    num_samples: Mapped[int | None] = mapped_column(sa.BigInteger)
    raw: Mapped[str] = mapped_column(sa.Text)
    raw_sha256: Mapped[str] = mapped_column(sa.Text)
    owner: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)


class DecontaminationRow(Base):
    """What one corpus shares with one benchmark."""

    __tablename__ = "decontamination"

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    content_key: Mapped[str] = mapped_column(sa.Text, unique=True)
    corpus: Mapped[str] = mapped_column(sa.Text)
    corpus_sha256: Mapped[str] = mapped_column(sa.Text)
    benchmark_id: Mapped[str] = mapped_column(sa.ForeignKey("benchmark.id"), index=True)
    n: Mapped[int]
    num_documents: Mapped[int] = mapped_column(sa.BigInteger)
    num_leaking_documents: Mapped[int] = mapped_column(sa.BigInteger)
    num_items: Mapped[int]
    num_leaked_items: Mapped[int]
    num_short_items: Mapped[int]
    matches: Mapped[list[Json]] = mapped_column(CanonicalJson)
    num_unread: Mapped[int] = mapped_column(sa.BigInteger)
    unread: Mapped[list[Json]] = mapped_column(CanonicalJson)
    num_bad: Mapped[int] = mapped_column(sa.BigInteger)
    bad: Mapped[tuple[str, ...]] = mapped_column(Words)
    owner: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)
