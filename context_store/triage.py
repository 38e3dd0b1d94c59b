"""Triage: what people said about findings. Marks are never changed or erased; the last one of a finding counts.

A finding is an anomaly, or an investigation, whose mark holds for each of its anomalies that has none of its own.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from context_store.database import Database
from context_store.knowledge import Knowledge
from context_store.ledger import append_entry
from context_store.models import AnomalyRow, InvestigationAnomalyRow, TriageRow
from context_store.records import Anomaly, DetectorRecord, TriageMark
from context_store.redaction import redact
from contracts.enums import TriageKind
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

_NEAR = 24  # steps between onsets of the same finding, seen again when the run is longer


class Triage:
    def __init__(self, database: Database, knowledge: Knowledge) -> None:
        self._database = database
        self._knowledge = knowledge

    def mark(
        self,
        subject: EvidenceRef,
        kind: TriageKind,
        actor: str,
        at: float,
        *,
        comment: str = "",
        until: float | None = None,
    ) -> TriageMark:
        """Say something about an anomaly or investigation; it is also written to the ledger.

        Raises NotFound for an unknown finding, UserInputError for another kind of object, a false alarm without a
        reason, or a snooze that does not end later than `at`.
        """
        self._require(subject)
        if kind is TriageKind.FALSE_ALARM and not comment.strip():
            raise UserInputError("a false alarm needs its reason", remedy="say why in a few words")
        if (kind is TriageKind.SNOOZED) != (until is not None) or (until is not None and not at < until < float("inf")):
            raise UserInputError("a snooze ends at a later time, and only a snooze does", remedy="say until when")
        values = {"subject": str(subject), "kind": kind, "actor": actor, "comment": redact(comment), "at": at}
        insert = sa.insert(TriageRow).values(**values, until=until).returning(*TriageRow.__table__.columns)
        with self._database.begin() as connection:
            mark = TriageMark(**connection.execute(insert).one()._mapping)
            detail = {"comment": mark.comment, "until": until}
            append_entry(
                connection, actor=actor, action=f"triage:{kind.value}", subject=mark.subject, detail=detail,
                evidence=(), at=at,
            )  # fmt: skip
        return mark

    def history(self, subjects: Iterable[EvidenceRef]) -> builtins.list[TriageMark]:
        """Every mark of these findings, oldest first."""
        named = [str(subject) for subject in subjects]
        query = _MARK.where(TriageRow.subject.in_(named)).order_by(TriageRow.id)
        with self._database.begin() as connection:
            return [TriageMark(**row._mapping) for row in connection.execute(query)]

    def last(self) -> dict[str, TriageMark]:
        """What counts of each finding somebody spoke about."""
        query = _MARK.distinct(TriageRow.subject).order_by(TriageRow.subject, TriageRow.id.desc())
        with self._database.begin() as connection:
            return {row.subject: TriageMark(**row._mapping) for row in connection.execute(query)}

    def quiet_cases(self, now: float) -> frozenset[str]:
        """Investigations of which nobody wants to be told: by their own mark, else by those of all their anomalies."""
        last, members = self.last(), self._members()
        return frozenset(
            case_id
            for case_id in {*members, *(s.partition(":")[2] for s in last if s.startswith("investigation:"))}
            if _is_quiet_case(last, case_id, members.get(case_id, ()), now)
        )

    def quiet(self, run_id: str, now: float) -> builtins.list[tuple[Anomaly, TriageMark]]:
        """Anomalies of a run of which nobody wants to be told, each with the mark that says so."""
        last = self.last()
        cases = {anomaly_id: case_id for case_id, ids in self._members().items() for anomaly_id in ids}
        found = ((each, _mark_of(last, each.id, cases.get(each.id))) for each in self._knowledge.anomalies(run_id))
        return [(each, mark) for each, mark in found if mark is not None and mark.is_quiet(now)]

    def detectors(self) -> builtins.list[DetectorRecord]:
        """One record for each kind of anomaly that was ever found, by kind."""
        last = self.last()
        cases = {anomaly_id: case_id for case_id, ids in self._members().items() for anomaly_id in ids}
        with self._database.begin() as connection:
            rows = connection.execute(sa.select(AnomalyRow.id, AnomalyRow.kind)).all()
        marks = {row.id: _mark_of(last, row.id, cases.get(row.id)) for row in rows}
        false = Counter(row.kind for row in rows if (m := marks[row.id]) and m.kind is TriageKind.FALSE_ALARM)
        found = Counter(row.kind for row in rows)
        return [
            DetectorRecord(kind=kind, num_findings=found[kind], num_false_alarms=false[kind]) for kind in sorted(found)
        ]

    def _require(self, subject: EvidenceRef) -> None:
        if subject.kind == "anomaly" and re.fullmatch("[0-9]{1,18}", subject.id):
            self._knowledge.anomaly(int(subject.id))
        elif subject.kind == "investigation":
            self._knowledge.investigation(subject.id)
        else:
            raise UserInputError(
                f"'{subject}' is no finding", remedy="name one as anomaly:NUMBER or investigation:CASE"
            )

    def _members(self) -> dict[str, builtins.list[int]]:
        """Anomaly ids by investigation."""
        members: dict[str, builtins.list[int]] = {}
        with self._database.begin() as connection:
            for row in connection.execute(sa.select(InvestigationAnomalyRow.__table__)):
                members.setdefault(row.investigation_id, []).append(row.anomaly_id)
        return members


_MARK = sa.select(TriageRow.__table__)


def covers(anomaly: Anomaly, mark: TriageMark, kind: str, series: Sequence[str], onset: tuple[int, int]) -> bool:
    """Does the mark on `anomaly` also speak of a finding of this kind on these series of the same run?

    A mute speaks of every onset; the others only of one near that of the anomaly.
    """
    shares = bool(set(anomaly.series) & set(series)) or not (anomaly.series or series)
    near = onset[0] - _NEAR <= anomaly.onset[1] and anomaly.onset[0] <= onset[1] + _NEAR
    return anomaly.kind == kind and shares and (near or mark.kind is TriageKind.MUTED)


def _mark_of(last: dict[str, TriageMark], anomaly_id: int, case_id: str | None) -> TriageMark | None:
    return last.get(f"anomaly:{anomaly_id}") or last.get(f"investigation:{case_id}")


def _is_quiet_case(last: dict[str, TriageMark], case_id: str, members: Sequence[int], now: float) -> bool:
    if (own := last.get(f"investigation:{case_id}")) is not None:
        return own.is_quiet(now)
    marks = [last.get(f"anomaly:{anomaly_id}") for anomaly_id in members]
    return bool(marks) and all(mark is not None and mark.is_quiet(now) for mark in marks)
