"""Case files: anomalies, investigations, suspects, diagnostics, verdicts, reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from context_store.canonical import content_hash
from context_store.database import Database
from context_store.evidence import require_stored
from context_store.models import (
    AnomalyRow,
    Base,
    DiagnosticRow,
    InvestigationAnomalyRow,
    InvestigationRow,
    RunRow,
    SuspectRow,
    VerdictRow,
)
from context_store.records import Anomaly, Diagnostic, Evidence, Investigation, Suspect, VerdictRecord
from context_store.redaction import redact
from contracts.enums import CauseKind, InvestigationState, Scope, Verdict
from contracts.errors import NotFound, UserInputError


class Knowledge:
    def __init__(self, database: Database) -> None:
        self._database = database

    # --- anomalies

    def put_anomaly(self, anomaly: Anomaly) -> Anomaly:
        """Idempotent by (run, kind, series, onset): the first one stays."""
        lo, hi = (int(step) for step in anomaly.onset)
        key = content_hash([anomaly.run_id, anomaly.kind, sorted(anomaly.series), lo, hi])
        values = _fields(anomaly, leave_out={"id", "onset"}) | {"statement": redact(anomaly.statement)}
        values |= {"content_key": key, "onset_lo": lo, "onset_hi": hi}
        values |= {"found_at": anomaly.found_at or self._database.clock()}
        with self._database.begin() as connection:
            connection.execute(insert(AnomalyRow).values(**values).on_conflict_do_nothing())
            return _anomaly(connection.execute(_ANOMALY.where(AnomalyRow.content_key == key)).one()._mapping)

    def anomaly(self, anomaly_id: int) -> Anomaly:
        """Raises NotFound."""
        with self._database.read() as connection:
            row = connection.execute(_ANOMALY.where(AnomalyRow.id == anomaly_id)).one_or_none()
        if row is None:
            raise NotFound(f"no anomaly {anomaly_id}", remedy="`lathe detect RUN` shows those of a run")
        return _anomaly(row._mapping)

    def anomalies(self, run_id: str | None = None, investigation_id: str | None = None) -> list[Anomaly]:
        """Earliest onset first."""
        query = _ANOMALY.order_by(AnomalyRow.onset_lo, AnomalyRow.id)
        if run_id is not None:
            query = query.where(AnomalyRow.run_id == run_id)
        if investigation_id is not None:
            members = sa.select(InvestigationAnomalyRow.anomaly_id).where(
                InvestigationAnomalyRow.investigation_id == investigation_id
            )
            query = query.where(AnomalyRow.id.in_(members))
        with self._database.read() as connection:
            return [_anomaly(row._mapping) for row in connection.execute(query)]

    # --- investigations

    def open_investigation(
        self, investigation_id: str, run_id: str, anomaly_ids: Sequence[int], title: str, at: float
    ) -> Investigation:
        """A case of the debug loop; idempotent by id. Which anomalies belong to it is settled when it is opened."""
        of_run = sa.select(RunRow.project_id, RunRow.owner).where(RunRow.id == run_id).subquery()
        known = {name: sa.select(of_run.c[name]).scalar_subquery() for name in ("project_id", "owner")}
        values = _opened("debug", run_id, title, at)  # an unknown run is what the database then complains about
        values |= {name: sa.func.coalesce(value, self._database.owner) for name, value in known.items()}
        statement = insert(InvestigationRow).values(id=investigation_id, **values)
        members = [{"investigation_id": investigation_id, "anomaly_id": anomaly_id} for anomaly_id in anomaly_ids]
        with self._database.begin() as connection:
            inserted = connection.execute(statement.on_conflict_do_nothing().returning(InvestigationRow.id)).first()
            if inserted is not None and members:
                connection.execute(insert(InvestigationAnomalyRow).on_conflict_do_nothing(), members)
        return self.investigation(investigation_id)

    def open_case(
        self, case_id: str, *, project_id: str, loop: str, title: str, at: float, run_id: str = ""
    ) -> Investigation:
        """A case of any loop, about a run or about none; idempotent by id.

        Raises NotFound for an unknown project or run.
        """
        values = {**_opened(loop, run_id or None, title, at), "project_id": project_id, "owner": self._database.owner}
        statement = insert(InvestigationRow).values(id=case_id, **values).on_conflict_do_nothing()
        with self._database.begin() as connection:
            connection.execute(statement)
        return self.investigation(case_id)

    def investigation(self, investigation_id: str) -> Investigation:
        """Raises NotFound."""
        with self._database.read() as connection:
            row = connection.execute(_INVESTIGATION.where(InvestigationRow.id == investigation_id)).one_or_none()
        if row is None:
            raise NotFound(f"no investigation '{investigation_id}'", remedy="`lathe diagnose RUN` opens one")
        return _investigation(row._mapping)

    def investigations(self, state: InvestigationState | None = None, run_id: str | None = None) -> list[Investigation]:
        """Newest first."""
        query = _INVESTIGATION.order_by(InvestigationRow.opened_at.desc(), InvestigationRow.id)
        if state is not None:
            query = query.where(InvestigationRow.state == state)
        if run_id is not None:
            query = query.where(InvestigationRow.run_id == run_id)
        with self._database.read() as connection:
            return [_investigation(row._mapping) for row in connection.execute(query)]

    def set_investigation(
        self,
        investigation_id: str,
        *,
        state: InvestigationState | None = None,
        verdict: Verdict | None = None,
        scope: Scope | None = None,
        statement: str | None = None,
        cause_kind: CauseKind | None = None,
        round: int | None = None,  # noqa: A002 - the record's field
    ) -> Investigation:
        """Change what is given. A verdict without a scope is refused (UserInputError)."""
        if verdict is not None and scope is None:
            raise UserInputError("a verdict needs its scope", remedy="say how far the verdict reaches")
        given = {
            "state": state,
            "verdict": verdict,
            "scope": scope,
            "statement": None if statement is None else redact(statement),
            "cause_kind": cause_kind,
            "round": round,
        }
        values = {key: value for key, value in given.items() if value is not None}
        if values:
            with self._database.begin() as connection:
                update = sa.update(InvestigationRow).where(InvestigationRow.id == investigation_id)
                connection.execute(update.values(**values))
        return self.investigation(investigation_id)

    # --- suspects and diagnostics

    def put_suspect(self, suspect: Suspect) -> None:
        """Store, or replace the one with the same key. UserInputError for an exclusion without stored evidence."""
        if suspect.status is Verdict.REFUTED and not suspect.evidence:
            raise UserInputError(
                f"suspect '{suspect.key}' cannot be ruled out without evidence",
                remedy="name the re-run or series that excludes it",
            )
        shown = suspect.evidence if suspect.status is Verdict.REFUTED else ()
        self._replace(SuspectRow, replace(suspect, title=redact(suspect.title), reason=redact(suspect.reason)), shown)

    def suspects(self, investigation_id: str) -> list[Suspect]:
        """By rank."""
        query = sa.select(SuspectRow.__table__).where(SuspectRow.investigation_id == investigation_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(SuspectRow.rank, SuspectRow.key))
            return [Suspect(**row._mapping) for row in rows]

    def put_diagnostic(self, diagnostic: Diagnostic) -> None:
        """Store, or replace the one with the same key."""
        clean = replace(diagnostic, label=redact(diagnostic.label), reading=redact(diagnostic.reading))
        self._replace(DiagnosticRow, clean)

    def diagnostics(self, investigation_id: str) -> list[Diagnostic]:
        """In the order they were first put."""
        query = _DIAGNOSTIC.where(DiagnosticRow.investigation_id == investigation_id).order_by(DiagnosticRow.ordinal)
        with self._database.read() as connection:
            return [Diagnostic(**row._mapping) for row in connection.execute(query)]

    # --- verdicts and reports

    def put_verdict(self, verdict: VerdictRecord) -> VerdictRecord:
        """Idempotent by content. Raises UserInputError for `proven` without a re-run or without evidence, and for
        evidence that is not stored."""
        shown = verdict.num_reruns > 0 and verdict.evidence and verdict.scope is not Scope.OBSERVED
        if verdict.verdict is Verdict.PROVEN and not shown:
            raise UserInputError(
                "only re-runs prove a cause: `proven` needs re-runs, evidence and another scope than `observed`",
                remedy="run the paired re-runs, or give the verdict `cannot_tell`",
            )
        values = _fields(verdict, leave_out={"id", "interval"})
        values |= {"statement": redact(verdict.statement), "would_overturn": redact(verdict.would_overturn)}
        lo, hi = verdict.interval or (None, None)
        key = content_hash(values | {"evidence": [str(e) for e in verdict.evidence], "interval": [lo, hi]})
        values |= {"content_key": key, "interval_lo": lo, "interval_hi": hi}
        with self._database.begin() as connection:
            require_stored(connection, verdict.evidence)
            connection.execute(insert(VerdictRow).values(**values).on_conflict_do_nothing())
            return _verdict(connection.execute(_VERDICT.where(VerdictRow.content_key == key)).one()._mapping)

    def verdict(self, verdict_id: int) -> VerdictRecord:
        """Raises NotFound."""
        with self._database.read() as connection:
            row = connection.execute(_VERDICT.where(VerdictRow.id == verdict_id)).one_or_none()
        if row is None:
            raise NotFound(f"no verdict {verdict_id}", remedy="`lathe diagnose RUN` shows the one of a case")
        return _verdict(row._mapping)

    def verdicts(self, investigation_id: str) -> list[VerdictRecord]:
        """In the order they were put."""
        query = _VERDICT.where(VerdictRow.investigation_id == investigation_id).order_by(VerdictRow.id)
        with self._database.read() as connection:
            return [_verdict(row._mapping) for row in connection.execute(query)]

    def put_report(self, investigation_id: str, markdown: str) -> None:
        """Replace the report."""
        update = sa.update(InvestigationRow).where(InvestigationRow.id == investigation_id)
        with self._database.begin() as connection:
            connection.execute(update.values(report=redact(markdown)))

    def report(self, investigation_id: str) -> str:
        """The Markdown, "" while there is none."""
        query = sa.select(InvestigationRow.report).where(InvestigationRow.id == investigation_id)
        with self._database.read() as connection:
            return str(connection.execute(query).scalar() or "")

    def _replace(self, table: type[Base], record: Suspect | Diagnostic, shown: Evidence = ()) -> None:
        """`shown`: references that have to be stored."""
        values = _fields(record)
        rest = {key: value for key, value in values.items() if key not in ("investigation_id", "key")}
        statement = insert(table).values(**values)
        with self._database.begin() as connection:
            require_stored(connection, shown)
            connection.execute(statement.on_conflict_do_update(index_elements=["investigation_id", "key"], set_=rest))


def _columns(table: type[Base], leave_out: set[str]) -> list[Any]:
    return [column for column in table.__table__.columns if column.key not in leave_out]


_ANOMALY = sa.select(*_columns(AnomalyRow, {"content_key"}))
_VERDICT = sa.select(*_columns(VerdictRow, {"content_key"}))
_DIAGNOSTIC = sa.select(*_columns(DiagnosticRow, {"ordinal"}))
_MEMBERS = (
    sa.select(
        sa.func.array_agg(aggregate_order_by(InvestigationAnomalyRow.anomaly_id, InvestigationAnomalyRow.anomaly_id))
    )
    .where(InvestigationAnomalyRow.investigation_id == InvestigationRow.id)
    .scalar_subquery()
)
_INVESTIGATION = sa.select(*_columns(InvestigationRow, {"report"}), _MEMBERS.label("anomaly_ids"))


def _fields(record: Any, leave_out: set[str] | None = None) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(record)]
    return {name: getattr(record, name) for name in names if name not in (leave_out or set())}


def _anomaly(row: sa.RowMapping) -> Anomaly:
    values = dict(row)
    return Anomaly(onset=(values.pop("onset_lo"), values.pop("onset_hi")), **values)


def _investigation(row: sa.RowMapping) -> Investigation:
    values = dict(row)
    members, run_id = values.pop("anomaly_ids") or (), values.pop("run_id") or ""
    return Investigation(anomaly_ids=tuple(members), run_id=run_id, **values)


def _opened(loop: str, run_id: str | None, title: str, at: float) -> dict[str, Any]:
    begun = {"state": InvestigationState.OPEN, "statement": "", "round": 0, "report": ""}
    return {"loop": loop, "run_id": run_id, "title": redact(title), "opened_at": at, **begun}


def _verdict(row: sa.RowMapping) -> VerdictRecord:
    values = dict(row)
    lo, hi = values.pop("interval_lo"), values.pop("interval_hi")
    return VerdictRecord(interval=None if lo is None else (lo, hi), **values)
