"""Case files and what was ruled out. `content_key` is the hash by which a row is stored once."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base, CanonicalJson, EvidenceList, UnixTime, Word, Words
from context_store.records import Evidence, Json
from contracts.enums import CauseKind, DiagnosticKind, InvestigationState, Scope, Verdict
from contracts.events import Scalar


class AnomalyRow(Base):
    __tablename__ = "anomaly"

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    content_key: Mapped[str] = mapped_column(sa.Text, unique=True)
    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"), index=True)
    kind: Mapped[str] = mapped_column(sa.Text)
    series: Mapped[tuple[str, ...]] = mapped_column(Words)
    onset_lo: Mapped[int] = mapped_column(sa.BigInteger)
    onset_hi: Mapped[int] = mapped_column(sa.BigInteger)
    severity: Mapped[float] = mapped_column(sa.Double)
    statement: Mapped[str] = mapped_column(sa.Text)
    evidence: Mapped[Evidence] = mapped_column(EvidenceList)
    probe: Mapped[Json] = mapped_column(CanonicalJson)
    found_at: Mapped[float] = mapped_column(UnixTime)


class InvestigationRow(Base):
    """`run_id` is NULL where the case is about no run."""

    __tablename__ = "investigation"
    __table_args__ = (
        sa.CheckConstraint("owner <> ''", name="investigation_has_an_owner"),
        sa.CheckConstraint("loop <> 'debug' OR run_id IS NOT NULL", name="investigation_debugs_a_run"),
    )

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    run_id: Mapped[str | None] = mapped_column(sa.ForeignKey("run.id"), index=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id"), index=True)
    loop: Mapped[str] = mapped_column(sa.Text)
    owner: Mapped[str] = mapped_column(sa.Text)
    title: Mapped[str] = mapped_column(sa.Text)
    state: Mapped[InvestigationState] = mapped_column(Word(InvestigationState))
    verdict: Mapped[Verdict | None] = mapped_column(Word(Verdict))
    scope: Mapped[Scope | None] = mapped_column(Word(Scope))
    statement: Mapped[str] = mapped_column(sa.Text)
    cause_kind: Mapped[CauseKind | None] = mapped_column(Word(CauseKind))
    round: Mapped[int]
    opened_at: Mapped[float] = mapped_column(UnixTime)
    report: Mapped[str] = mapped_column(sa.Text)


class CaseWorkRow(Base):
    """What a loop asked and measured in a case."""

    __tablename__ = "case_work"
    __table_args__ = (sa.Index("ix_case_work_kind", "kind", "ordinal"),)

    investigation_id: Mapped[str] = mapped_column(sa.ForeignKey("investigation.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), unique=True)
    body: Mapped[Json] = mapped_column(CanonicalJson)
    at: Mapped[float] = mapped_column(UnixTime)


class InvestigationAnomalyRow(Base):
    __tablename__ = "investigation_anomaly"

    investigation_id: Mapped[str] = mapped_column(sa.ForeignKey("investigation.id"), primary_key=True)
    anomaly_id: Mapped[int] = mapped_column(sa.ForeignKey("anomaly.id"), primary_key=True)


class SuspectRow(Base):
    __tablename__ = "suspect"
    __table_args__ = (
        sa.CheckConstraint("status <> 'refuted' OR cardinality(evidence) > 0", name="exclusion_has_evidence"),
    )

    investigation_id: Mapped[str] = mapped_column(sa.ForeignKey("investigation.id"), primary_key=True)
    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    cause_kind: Mapped[CauseKind] = mapped_column(Word(CauseKind))
    title: Mapped[str] = mapped_column(sa.Text)
    commits: Mapped[tuple[str, ...]] = mapped_column(Words)
    evidence: Mapped[Evidence] = mapped_column(EvidenceList)
    score: Mapped[float] = mapped_column(sa.Double)
    rank: Mapped[int]
    status: Mapped[Verdict | None] = mapped_column(Word(Verdict))
    reason: Mapped[str] = mapped_column(sa.Text)


class DiagnosticRow(Base):
    __tablename__ = "diagnostic"

    investigation_id: Mapped[str] = mapped_column(sa.ForeignKey("investigation.id"), primary_key=True)
    key: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    ordinal: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), unique=True)
    kind: Mapped[DiagnosticKind] = mapped_column(Word(DiagnosticKind))
    label: Mapped[str] = mapped_column(sa.Text)
    suspect_keys: Mapped[tuple[str, ...]] = mapped_column(Words)
    run_id: Mapped[str] = mapped_column(sa.Text)
    effect_key: Mapped[str] = mapped_column(sa.Text)
    measure: Mapped[float | None] = mapped_column(sa.Double)
    reading: Mapped[str] = mapped_column(sa.Text)


class VerdictRow(Base):
    __tablename__ = "verdict"

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    content_key: Mapped[str] = mapped_column(sa.Text, unique=True)
    investigation_id: Mapped[str] = mapped_column(sa.ForeignKey("investigation.id"), index=True)
    verdict: Mapped[Verdict] = mapped_column(Word(Verdict))
    scope: Mapped[Scope] = mapped_column(Word(Scope))
    suspect_keys: Mapped[tuple[str, ...]] = mapped_column(Words)
    num_reruns: Mapped[int]
    effect: Mapped[float | None] = mapped_column(sa.Double)
    interval_lo: Mapped[float | None] = mapped_column(sa.Double)
    interval_hi: Mapped[float | None] = mapped_column(sa.Double)
    statement: Mapped[str] = mapped_column(sa.Text)
    would_overturn: Mapped[str] = mapped_column(sa.Text)
    evidence: Mapped[Evidence] = mapped_column(EvidenceList)


class NegativeRow(Base):
    """`diff_hash`: of the normalised diff, "" without one (context_store.negatives)."""

    __tablename__ = "negative_result"
    __table_args__ = (
        sa.Index("ix_negative_result_diff_hash", "diff_hash", postgresql_where=sa.text("diff_hash <> ''")),
        sa.CheckConstraint("cardinality(evidence) > 0", name="negative_result_has_evidence"),
    )

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    content_key: Mapped[str] = mapped_column(sa.Text, unique=True)
    project_id: Mapped[str | None] = mapped_column(sa.ForeignKey("project.id"), index=True)
    investigation_id: Mapped[str | None] = mapped_column(sa.ForeignKey("investigation.id"), index=True)
    claim: Mapped[str] = mapped_column(sa.Text)
    intervention: Mapped[str] = mapped_column(sa.Text)
    context: Mapped[dict[str, Scalar]] = mapped_column(CanonicalJson)
    expected: Mapped[str] = mapped_column(sa.Text)
    observed: Mapped[str] = mapped_column(sa.Text)
    reason_class: Mapped[str] = mapped_column(sa.Text)
    reason: Mapped[str] = mapped_column(sa.Text)
    evidence: Mapped[Evidence] = mapped_column(EvidenceList)
    reopen_if: Mapped[str] = mapped_column(sa.Text)
    actor: Mapped[str] = mapped_column(sa.Text)
    scale: Mapped[str] = mapped_column(sa.Text)
    data: Mapped[str] = mapped_column(sa.Text)
    code_version: Mapped[str] = mapped_column(sa.Text)
    expected_effect: Mapped[Json | None] = mapped_column(CanonicalJson, nullable=False)
    observed_effect: Mapped[Json | None] = mapped_column(CanonicalJson, nullable=False)
    diff_hash: Mapped[str] = mapped_column(sa.Text)
    superseded_by: Mapped[int | None] = mapped_column(sa.ForeignKey("negative_result.id"))
    at: Mapped[float] = mapped_column(UnixTime)
