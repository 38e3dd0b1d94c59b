"""Triage marks: the last one counts, none is erased, and what people called false alarms is counted by detector."""

from __future__ import annotations

import psycopg
import pytest

from context_store import Store
from context_store.records import Anomaly, NewRun, Project
from context_store.triage import covers
from contracts.enums import RunRole, TriageKind
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

CASE = EvidenceRef(kind="investigation", id="case-1")


def found(store: Store, kind: str, lo: int, series: str = "loss") -> Anomaly:
    return store.knowledge.put_anomaly(
        Anomaly(
            run_id="run-1", kind=kind, series=(series,), onset=(lo, lo + 5), severity=0.5, statement=f"{kind} at {lo}",
            evidence=(EvidenceRef(kind="run", id="run-1"),),
        )
    )  # fmt: skip


def of(anomaly: Anomaly) -> EvidenceRef:
    return EvidenceRef(kind="anomaly", id=str(anomaly.id))


@pytest.fixture
def case(store: Store) -> tuple[Anomaly, Anomaly]:
    """A case of two anomalies, and a third anomaly without one."""
    store.projects.put(Project(id="p", path="/p", entry="recipe:recipe", backend="embedded"))
    store.runs.create(NewRun(id="run-1", project_id="p", name="one", role=RunRole.TRAINING, folder="/r"))
    both = found(store, "spike", 100), found(store, "level_shift", 110, "grad_norm")
    store.knowledge.open_investigation("case-1", "run-1", [each.id for each in both], "loss spikes", at=1.0)
    found(store, "spike", 900)
    return both


def test_the_last_word_counts_and_all_of_them_stay(store: Store, case: tuple[Anomaly, Anomaly]) -> None:
    store.triage.mark(CASE, TriageKind.ACKNOWLEDGED, "ada", 10.0)
    assert store.triage.quiet_cases(11.0) == frozenset()
    store.triage.mark(CASE, TriageKind.SNOOZED, "ada", 11.0, until=20.0)
    assert store.triage.quiet_cases(19.0) == {"case-1"}
    assert [each.id for each, _ in store.triage.quiet("run-1", 19.0)] == [each.id for each in case]
    assert store.triage.quiet_cases(20.0) == frozenset()
    store.triage.mark(CASE, TriageKind.MUTED, "bob", 21.0)
    store.triage.mark(of(case[0]), TriageKind.REOPENED, "bob", 22.0)  # its own mark counts more than that of its case
    assert [each.id for each, _ in store.triage.quiet("run-1", 1e9)] == [case[1].id]
    assert [mark.kind for mark in store.triage.history([CASE])] == ["acknowledged", "snoozed", "muted"]
    assert [entry.actor for entry in store.ledger.list(str(CASE))] == ["bob", "ada", "ada"]


def test_false_alarms_are_counted_by_detector(store: Store, case: tuple[Anomaly, Anomaly]) -> None:
    store.triage.mark(CASE, TriageKind.FALSE_ALARM, "ada", 10.0, comment="a planned restart, AKIAIOSFODNN7EXAMPLE")
    assert [(each.kind, each.num_findings, each.num_false_alarms) for each in store.triage.detectors()] == [
        ("level_shift", 1, 1),
        ("spike", 2, 1),
    ]
    assert "AKIAIOSFODNN7EXAMPLE" not in store.triage.last()[str(CASE)].comment
    store.triage.mark(CASE, TriageKind.REOPENED, "ada", 11.0)
    assert sum(each.num_false_alarms for each in store.triage.detectors()) == 0


def test_a_case_whose_findings_are_all_quiet_is_quiet(store: Store, case: tuple[Anomaly, Anomaly]) -> None:
    for anomaly, expected in zip(case, (frozenset(), {"case-1"}), strict=True):
        store.triage.mark(of(anomaly), TriageKind.MUTED, "ada", 10.0)
        assert store.triage.quiet_cases(11.0) == expected


def test_a_mute_speaks_of_every_onset_and_a_false_alarm_of_its_own(store: Store, case: tuple[Anomaly, Anomaly]) -> None:
    spike, _ = case
    false = store.triage.mark(of(spike), TriageKind.FALSE_ALARM, "ada", 1.0, comment="planned")
    mute = store.triage.mark(of(spike), TriageKind.MUTED, "ada", 2.0)
    assert covers(spike, false, "spike", ("loss", "lm_loss"), (90, 99))
    assert not covers(spike, false, "spike", ("loss",), (900, 905))
    assert covers(spike, mute, "spike", ("loss",), (900, 905))
    assert not covers(spike, mute, "spike", ("grad_norm",), (100, 105))
    assert not covers(spike, mute, "level_shift", ("loss",), (100, 105))


@pytest.mark.parametrize(
    ("subject", "kind", "wish", "error"),
    [
        ("investigation:nothing", TriageKind.MUTED, {}, NotFound),
        ("anomaly:999999", TriageKind.MUTED, {}, NotFound),
        ("anomaly:99999999999999999999", TriageKind.MUTED, {}, UserInputError),
        ("run:run-1", TriageKind.MUTED, {}, UserInputError),
        ("investigation:case-1", TriageKind.FALSE_ALARM, {"comment": " "}, UserInputError),
        ("investigation:case-1", TriageKind.SNOOZED, {}, UserInputError),
        ("investigation:case-1", TriageKind.SNOOZED, {"until": 10.0}, UserInputError),
        ("investigation:case-1", TriageKind.MUTED, {"until": 99.0}, UserInputError),
    ],
)
def test_what_says_nothing_is_refused(
    store: Store, case: tuple[Anomaly, Anomaly], subject: str, kind: TriageKind, wish: dict[str, object], error: type
) -> None:
    with pytest.raises(error):
        store.triage.mark(EvidenceRef.parse(subject), kind, "ada", 10.0, **wish)  # type: ignore[arg-type]
    assert store.triage.last() == {}


@pytest.mark.parametrize("change", ["UPDATE triage_mark SET actor = 'eve'", "DELETE FROM triage_mark"])
def test_no_mark_is_changed_or_erased(
    store: Store, case: tuple[Anomaly, Anomaly], database_url: str, change: str
) -> None:
    store.triage.mark(CASE, TriageKind.MUTED, "ada", 10.0)
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute(change)
