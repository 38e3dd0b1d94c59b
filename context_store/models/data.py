"""Data pipelines, their stages, subsets and single documents. Texts are kept once, by their hash."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, CanonicalJson, UnixTime, Word, Words
from context_store.records import Json, Level


class PipelineRow(Base):
    __tablename__ = "pipeline"
    __table_args__ = (sa.CheckConstraint("owner <> ''", name="pipeline_has_an_owner"),)

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    title: Mapped[str] = mapped_column(sa.Text)
    owner: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)


class StageRow(Base):
    __tablename__ = "stage"
    __table_args__ = (sa.UniqueConstraint("pipeline_id", "ordinal", name="uq_stage_pipeline_id_ordinal"),)

    pipeline_id: Mapped[str] = mapped_column(sa.ForeignKey("pipeline.id"), primary_key=True)
    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    ordinal: Mapped[int]
    level: Mapped[Level] = mapped_column(Word(Level))
    title: Mapped[str] = mapped_column(sa.Text)


class StageVersionRow(Base):
    """The code and settings that a stage ran with at one time."""

    __tablename__ = "stage_version"
    __table_args__ = (sa.ForeignKeyConstraint(["pipeline_id", "stage"], ["stage.pipeline_id", "stage.key"]),)

    pipeline_id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    stage: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    code_version: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    settings: Mapped[Json] = mapped_column(CanonicalJson)
    at: Mapped[float] = mapped_column(UnixTime)


class SubsetRow(Base):
    __tablename__ = "subset"
    __table_args__ = (sa.CheckConstraint("owner <> ''", name="subset_has_an_owner"),)

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    pipeline_id: Mapped[str] = mapped_column(sa.ForeignKey("pipeline.id"), index=True)
    source: Mapped[str] = mapped_column(sa.Text)
    parents: Mapped[tuple[str, ...]] = mapped_column(Words)
    num_documents: Mapped[int | None] = mapped_column(sa.BigInteger)
    num_tokens: Mapped[int | None] = mapped_column(sa.BigInteger)
    owner: Mapped[str] = mapped_column(sa.Text)
    at: Mapped[float] = mapped_column(UnixTime)


class StageTraceRow(Base):
    """One stage that a subset went through, with its counts and where the intermediate result lies."""

    __tablename__ = "stage_trace"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["pipeline_id", "stage", "code_version"],
            ["stage_version.pipeline_id", "stage_version.stage", "stage_version.code_version"],
        ),
        sa.Index(None, "pipeline_id", "stage", "code_version"),
    )

    subset_id: Mapped[str] = mapped_column(sa.ForeignKey("subset.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    pipeline_id: Mapped[str] = mapped_column(sa.Text)
    stage: Mapped[str] = mapped_column(sa.Text)
    code_version: Mapped[str] = mapped_column(sa.Text)
    num_in: Mapped[int | None] = mapped_column(sa.BigInteger)
    num_out: Mapped[int | None] = mapped_column(sa.BigInteger)
    output: Mapped[str] = mapped_column(sa.Text)
    output_sha256: Mapped[str] = mapped_column(sa.Text)


class DocumentRow(Base):
    __tablename__ = "document"

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    subset_id: Mapped[str] = mapped_column(sa.ForeignKey("subset.id"), index=True)
    source: Mapped[str] = mapped_column(sa.Text)


class DocumentTextRow(Base):
    __tablename__ = "document_text"

    sha256: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    text: Mapped[str] = mapped_column(sa.Text)


class DocumentStageRow(Base):
    """The text after a stage; NULL where the stage dropped the document, with the `reason`."""

    __tablename__ = "document_stage"

    document_id: Mapped[str] = mapped_column(sa.ForeignKey("document.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    text_sha256: Mapped[str | None] = mapped_column(sa.ForeignKey("document_text.sha256"))
    reason: Mapped[str] = mapped_column(sa.Text)
