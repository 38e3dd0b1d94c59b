"""The demo's last line, and the report of a run in which nothing was wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from context_store import Store
from context_store.records import Anomaly, NewRun, Project
from contracts.enums import RunRole
from contracts.evidence import EvidenceRef
from control_plane.demo.home import Truth
from control_plane.demo.outcome import NOTHING_FOUND, as_object, is_right, read_answer
from control_plane.demo.pair import PILOT
from control_plane.demo.report import write_report

HEALTHY = Truth(fault="healthy", cause_kind="none", commits=())
PLANTED = Truth(fault="interaction", cause_kind="interaction", commits=("a", "b"))


def test_the_keys_of_the_last_line_are_frozen() -> None:
    keys = as_object("healthy", NOTHING_FOUND, HEALTHY, 12.34).keys()
    assert list(keys) == [
        "fault", "anomaly", "suspects", "culprit_commit", "truth_commit", "culprit_commits", "truth_commits",
        "cause_kind", "truth_cause_kind", "verdict", "scope", "reruns", "verified", "negative_results", "seconds",
    ]  # fmt: skip


def test_a_run_without_a_case_has_nothing_wrong(store: Store) -> None:
    answer = read_answer(store, "")
    assert answer == NOTHING_FOUND
    assert is_right(answer, HEALTHY)
    assert not is_right(answer, PLANTED)


def test_a_false_alarm_on_the_pilot_is_no_clean_end(store: Store) -> None:
    """Nothing in the main run, but something in the pilot: the answer says so."""
    store.projects.put(Project(id="p", path="p"))
    store.runs.create(NewRun(id=PILOT, project_id="p", name=PILOT, role=RunRole.TRAINING, folder="f"))
    alarm = Anomaly(
        run_id=PILOT,
        kind="spike",
        series=("lm_loss",),
        onset=(3, 4),
        severity=1.0,
        statement="lm_loss jumps",
        evidence=(EvidenceRef(kind="run", id=PILOT),),
        probe={},
    )
    store.knowledge.put_anomaly(alarm)
    answer = read_answer(store, "")
    assert answer.anomaly is not None
    assert answer.anomaly["statement"] == "lm_loss jumps"
    assert answer.verdict == "cannot_tell"
    assert not is_right(answer, HEALTHY)


def test_half_of_an_interaction_is_not_right() -> None:
    answer = replace(NOTHING_FOUND, culprit_commits=("b",), cause_kind="interaction")
    assert not is_right(answer, PLANTED)
    assert is_right(replace(answer, culprit_commits=("b", "a")), PLANTED)
    assert not is_right(replace(answer, culprit_commits=("a", "b"), cause_kind="code"), PLANTED)


def test_the_report_of_a_healthy_run_links_plots_that_exist(store: Store, tmp_path: Path) -> None:
    report = write_report(tmp_path / "report", store, "", NOTHING_FOUND, HEALTHY, [], "learning rate")
    text = report.read_text()
    assert "nothing wrong found" in text
    assert "They agree." in text
    plots = [line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert plots
    assert all((report.parent / plot).read_text().startswith("<svg") for plot in plots)
