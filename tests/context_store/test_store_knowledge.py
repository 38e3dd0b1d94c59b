"""Case files and negative results. Shows R801-2.5, R801-2.6 (storage side), R801-2.14 (round trips)."""

from __future__ import annotations

import dataclasses
import re

import pytest
from training_log import make_run

from context_store import Store
from context_store.records import Anomaly, Diagnostic, Investigation, NegativeResult, Suspect, VerdictRecord
from contracts.enums import CauseKind, DiagnosticKind, InvestigationState, Scope, Verdict
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

SERIES = EvidenceRef(kind="series", id="run-1/max_vio%2Flayers.5", slice="180..195")
RERUN = EvidenceRef(kind="run", id="rr-1")


def anomaly(**more: object) -> Anomaly:
    fields: dict[str, object] = {
        "run_id": "run-1",
        "kind": "level_shift",
        "series": ("max_vio/layers.5", "max_vio/layers.7"),
        "onset": (180, 195),
        "severity": 4.5,
        "statement": "layers 5 and 7 depart",
        "evidence": (SERIES,),
        "probe": {"series": "max_vio/layers.5", "from": 180, "to": 195},
    }
    return Anomaly(**fields | more)  # type: ignore[arg-type]


def negative(**more: object) -> NegativeResult:
    fields: dict[str, object] = {
        "claim": "the learning-rate change of commit 3f2a9c caused the imbalance",
        "intervention": "re-run without optim.router.lr 0.01 -> 0.02",
        "context": {"moe.num_experts": 8, "optim.router.optimizer": "adamw"},
        "expected": "MaxVio recedes",
        "observed": "MaxVio unchanged",
        "reason_class": "no_effect",
        "reason": "the re-run departs at the same step",
        "evidence": (RERUN,),
        "reopen_if": "the router uses another optimizer",
        "investigation_id": "case-1",
        "actor": "debug loop",
    }
    return NegativeResult(**fields | more)  # type: ignore[arg-type]


@pytest.fixture
def case(store: Store) -> Investigation:
    """An open investigation `case-1` of `run-1`."""
    make_run(store)
    make_run(store, RERUN.id)
    found = store.knowledge.put_anomaly(anomaly())
    return store.knowledge.open_investigation("case-1", "run-1", [found.id], "layers depart", at=100.0)


def test_anomalies_are_stored_once_and_come_back_whole(store: Store, case: Investigation) -> None:
    again = store.knowledge.put_anomaly(anomaly(severity=9.0))
    assert again == dataclasses.replace(anomaly(), id=case.anomaly_ids[0], found_at=again.found_at)
    other = store.knowledge.put_anomaly(anomaly(onset=(10, 12)))
    assert store.knowledge.anomalies(run_id="run-1") == [other, again]
    assert store.knowledge.anomalies(investigation_id="case-1") == [again]
    with pytest.raises(NotFound):
        store.knowledge.put_anomaly(anomaly(run_id="unknown"))


def test_an_investigation_goes_its_way(store: Store, case: Investigation) -> None:
    assert (case.state, case.verdict, case.round, case.opened_at) == (InvestigationState.OPEN, None, 0, 100.0)
    assert store.knowledge.open_investigation("case-1", "run-1", case.anomaly_ids, "other title", at=5.0) == case
    changed = store.knowledge.set_investigation(
        "case-1",
        state=InvestigationState.CLOSED,
        verdict=Verdict.PROVEN,
        scope=Scope.THIS_RUN,
        cause_kind=CauseKind.CODE,
        round=3,
    )
    assert (changed.state, changed.verdict, changed.round) == (InvestigationState.CLOSED, Verdict.PROVEN, 3)
    assert store.knowledge.investigations(state=InvestigationState.OPEN) == []
    assert store.knowledge.investigations(run_id="run-1") == [changed]
    with pytest.raises(UserInputError, match="scope"):
        store.knowledge.set_investigation("case-1", verdict=Verdict.PROVEN)
    store.knowledge.put_report("case-1", "# Report")
    assert store.knowledge.report("case-1") == "# Report"


def test_suspects_diagnostics_and_verdicts_come_back_whole(store: Store, case: Investigation) -> None:
    suspect = Suspect(
        investigation_id="case-1",
        key="commit:3f2a9c",
        cause_kind=CauseKind.CODE,
        title="balance loss skips layers",
        commits=("3f2a9c",),
        evidence=(SERIES,),
        score=0.7,
        rank=1,
    )
    second = dataclasses.replace(suspect, key="config:optim.router.lr", rank=2, commits=())
    for entry in (second, suspect):
        store.knowledge.put_suspect(entry)
    refuted = dataclasses.replace(
        second, status=Verdict.REFUTED, reason="re-run rr-1 departs as well", evidence=(RERUN,)
    )
    store.knowledge.put_suspect(refuted)
    assert store.knowledge.suspects("case-1") == [suspect, refuted]
    diagnostic = Diagnostic(
        investigation_id="case-1",
        key="revert:3f2a9c",
        kind=DiagnosticKind.REVERT,
        label="without 3f2a9c",
        suspect_keys=("commit:3f2a9c",),
        run_id="rr-1",
        effect_key="e-1",
    )
    placebo = dataclasses.replace(diagnostic, key="placebo", kind=DiagnosticKind.PLACEBO)
    for run in (diagnostic, placebo):
        store.knowledge.put_diagnostic(run)
    read = dataclasses.replace(diagnostic, measure=float("nan"), reading="never came back")
    store.knowledge.put_diagnostic(read)
    stored = store.knowledge.diagnostics("case-1")
    assert [entry.key for entry in stored] == ["revert:3f2a9c", "placebo"]
    assert stored[0].reading == "never came back"
    assert stored[0].measure != stored[0].measure
    verdict = VerdictRecord(
        investigation_id="case-1",
        verdict=Verdict.PROVEN,
        scope=Scope.THIS_RUN,
        suspect_keys=("commit:3f2a9c",),
        num_reruns=5,
        effect=1.25,
        interval=(1.0, 1.5),
        statement="it recedes without the commit",
        would_overturn="a replay that does not depart",
        evidence=(RERUN,),
    )
    first = store.knowledge.put_verdict(verdict)
    assert store.knowledge.put_verdict(verdict) == first
    assert store.knowledge.verdicts("case-1") == [dataclasses.replace(verdict, id=first.id)]


def test_what_is_not_shown_is_refused(store: Store, case: Investigation) -> None:
    unshown = Suspect(
        investigation_id="case-1",
        key="k",
        cause_kind=CauseKind.DATA,
        title="t",
        commits=(),
        evidence=(),
        score=0.0,
        rank=1,
        status=Verdict.REFUTED,
        reason="just so",
    )
    with pytest.raises(UserInputError, match="without evidence"):
        store.knowledge.put_suspect(unshown)
    claim = VerdictRecord(
        investigation_id="case-1",
        verdict=Verdict.PROVEN,
        scope=Scope.OBSERVED,
        suspect_keys=(),
        num_reruns=0,
        effect=None,
        interval=None,
        statement="",
        would_overturn="",
        evidence=(RERUN,),
    )
    with pytest.raises(UserInputError, match="only re-runs prove"):
        store.knowledge.put_verdict(claim)
    with pytest.raises(UserInputError, match="only re-runs prove"):
        store.knowledge.put_verdict(dataclasses.replace(claim, scope=Scope.THIS_RUN))
    assert store.knowledge.put_verdict(dataclasses.replace(claim, scope=Scope.THIS_RUN, num_reruns=1)).id


@pytest.mark.parametrize(
    "invented", ["run:rr-99", "config:run-1/no.such.field", "hunk:/train.py", "hunk:c0ff/train.py"]
)
def test_invented_evidence_is_refused(store: Store, case: Investigation, invented: str) -> None:
    evidence = (RERUN, EvidenceRef.parse(invented))
    suspect = Suspect(
        investigation_id="case-1", key="k", cause_kind=CauseKind.DATA, title="t", commits=(), evidence=evidence,
        score=0.0, rank=1, reason="just so",
    )  # fmt: skip
    store.knowledge.put_suspect(suspect)  # what nobody decided yet claims nothing
    with pytest.raises(UserInputError, match="not stored"):
        store.knowledge.put_suspect(dataclasses.replace(suspect, status=Verdict.REFUTED))
    assert store.knowledge.suspects("case-1") == [suspect]
    claim = VerdictRecord(
        investigation_id="case-1", verdict=Verdict.CANNOT_TELL, scope=Scope.OBSERVED, suspect_keys=(), num_reruns=0,
        effect=None, interval=None, statement="", would_overturn="", evidence=evidence,
    )  # fmt: skip
    with pytest.raises(UserInputError, match="not stored"):
        store.knowledge.put_verdict(claim)
    assert store.knowledge.verdicts("case-1") == []


def test_negative_results_are_found_again(store: Store, case: Investigation) -> None:
    stored = store.negatives.add(negative())
    assert store.negatives.add(negative()) == stored
    assert stored.project_id == "p", "taken from the investigation's run"
    other = store.negatives.add(negative(claim="weight decay on norms shrinks embeddings", investigation_id=None))
    assert store.negatives.list(investigation_id="case-1") == [stored]
    found = store.negatives.search("does the router learning rate cause imbalance?")
    assert found[0][0] == stored
    assert found[0][1] > 0
    assert [entry.id for entry, _ in store.negatives.search("num_experts", project_id="p")] == [stored.id]
    assert store.negatives.search("weight decay")[0][0] == other
    assert store.negatives.search("embeddings")[0][0] == other
    for nothing in ("", "???", "the", "quantum'; DROP SCHEMA public; -- | & !"):
        assert store.negatives.search(nothing) == []


@pytest.mark.parametrize("missing", [{"evidence": ()}, {"reason": "  "}])
def test_a_negative_result_without_evidence_or_reason_is_refused(
    store: Store, case: Investigation, missing: dict[str, object]
) -> None:
    with pytest.raises(UserInputError, match="needs a reason and evidence"):
        store.negatives.add(negative(**missing))
    assert store.negatives.list() == []


@pytest.mark.parametrize(
    "evidence", ["run:rr-9", "series:rr-1/loss", "verdict:1", "hunk:c0ffee/a.py", "note:1", "event:nonsense"]
)
def test_evidence_has_to_be_stored(store: Store, case: Investigation, evidence: str) -> None:
    """Shows R801-2.5: an exclusion rests on something that can be looked at."""
    with pytest.raises(UserInputError, match=f"evidence that is not stored: {re.escape(evidence)}") as caught:
        store.negatives.add(negative(evidence=(RERUN, EvidenceRef.parse(evidence))))
    assert "lathe ingest" in caught.value.remedy
    assert store.negatives.list() == []
    rests = (f"anomaly:{case.anomaly_ids[0]}", "investigation:case-1", "run:rr-1#10..20")
    assert store.negatives.add(negative(evidence=tuple(map(EvidenceRef.parse, rests)))).id
