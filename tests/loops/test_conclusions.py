"""What a case says in the end and before it begins: outcome of each suspect, natures, guards, limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from world import ATTENTION, DEVICES, NOW, README, REPORT, SCALE, SHOWN, World

from agents.roles.grounding import exists
from context_store.records import Anomaly
from contracts.enums import CauseKind, Verdict
from contracts.evidence import EvidenceRef
from control_plane.case_file import case_file
from loops.debug import detect, open_case
from loops.debug.case import load_case
from loops.debug.measure import Probe, Reading
from loops.debug.nature import Nature, in_words, nature_of, stored_nature
from loops.debug.report import write_report
from loops.debug.verification import guards_of
from loops.runner import Runner


def diagnose(world: World, runner: Runner) -> str:
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    runner.start("debug", case_id)
    return case_id


def test_every_suspect_that_was_left_out_says_what_came_of_it(world: World, new_runner: Callable[..., Runner]) -> None:
    """Undoing the other number of ranks cured as well: it is necessary, and not called untested."""
    world.train("run", world.lay_out([REPORT], [README, ATTENTION, DEVICES]), dp_sizes=(4, 4, 2))
    case_id = diagnose(world, new_runner())
    suspects = {s.title: s for s in world.store.knowledge.suspects(case_id)}
    (ranks,) = [s for title, s in suspects.items() if "dp_size" in title]
    assert "necessary: without it the anomaly is gone (measure 0.00" in ranks.reason
    report = world.store.knowledge.report(case_id)
    rows = [
        line for line in report.splitlines() if line.startswith("|") and "dp_size 4 -> 2 when resumed | resume" in line
    ]
    assert len(rows) == 1
    assert "not tested" not in rows[0]


def test_a_commit_that_only_writes_other_numbers_is_a_measurement(
    world: World, new_runner: Callable[..., Runner]
) -> None:
    """The loss looks worse, and nothing that is learned changed: the case says so, and is no fault of the training."""
    world.train("run", world.lay_out([README], [ATTENTION, SHOWN]))
    case_id = diagnose(world, new_runner())
    case = world.store.knowledge.investigation(case_id)
    assert (case.verdict, case.cause_kind) == (Verdict.PROVEN, CauseKind.MEASUREMENT)
    assert "gradients, weights and data are bitwise the same with it and without it" in case.statement
    assert world.store.knowledge.verdicts(case_id)[0].suspect_keys == (f"commit:{world.commits[SHOWN.subject]}",)


def test_budget_and_stop_rule_are_told_before_anything_runs(world: World, new_runner: Callable[..., Runner]) -> None:
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner())
    subject = str(EvidenceRef(kind="investigation", id=case_id))
    entries = sorted(world.store.ledger.list(subject=subject, limit=100), key=lambda entry: entry.id)
    assert entries[0].action == "limits"
    assert "at the latest after 24 rounds, 40 re-runs, 1800 CPU s" in str(entries[0].detail["text"])
    assert "re-runs and" in world.store.knowledge.report(case_id)


def test_the_report_tells_what_came_of_it_once(world: World, new_runner: Callable[..., Runner]) -> None:
    """Shows R801-10.1: the causal sentence stands beside the re-runs that show it, and nowhere without them."""
    world.train("run", world.lay_out([REPORT], [README, ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner())
    verdict = world.store.knowledge.verdicts(case_id)[0]
    report = world.store.knowledge.report(case_id)
    assert verdict.verdict is Verdict.PROVEN
    assert report.count(verdict.statement) == 1
    for diagnostic in world.store.knowledge.diagnostics(case_id):
        assert f"`run:{diagnostic.run_id}`" in report
    cited = [EvidenceRef.parse(each) for each in re.findall(r"`([a-z_]+:[^`\s]+)`", report)]
    assert len(cited) > 20
    assert [str(ref) for ref in cited if not exists(world.store, ref)] == []


def test_a_line_that_cites_what_is_not_stored_does_not_stay_in_the_report(
    world: World, new_runner: Callable[..., Runner]
) -> None:
    """Shows R801-10.1: a claim whose re-run is gone is not made any more."""
    world.train("run", world.lay_out([REPORT], [README, ATTENTION, SCALE]))
    case_id = diagnose(world, new_runner())
    case = load_case(world.store, case_id)
    suspect = world.store.knowledge.suspects(case_id)[0]
    stranger = EvidenceRef(kind="run", id="rr-of-nobody")
    anomaly = replace(case.leading, statement="the loss rose by magic", evidence=(stranger,))
    report = write_report(world.store, replace(case, anomalies=(*case.anomalies, anomaly)))
    assert "by magic" not in report
    assert "lines are left out, since the store does not have what they cite" in report
    assert suspect.title in report


def test_a_machine_that_became_slow_is_stored_as_infrastructure(
    world: World, new_runner: Callable[..., Runner]
) -> None:
    """Every re-run there is as slow, so no change is blamed; the class is a field and not only words."""
    world.unseen = {"speed": 0.25}
    world.train("run", world.lay_out([REPORT], [README, ATTENTION]))
    case_id = diagnose(world, new_runner())
    assert world.store.knowledge.investigation(case_id).verdict is Verdict.CANNOT_TELL
    assert stored_nature(world.store, case_id) is Nature.INFRASTRUCTURE
    assert "Nature, by its look alone: `infrastructure`" in world.store.knowledge.report(case_id)
    assert case_file(world.store, case_id)["nature"] is Nature.INFRASTRUCTURE


def _anomaly(kind: str, *series: str) -> Anomaly:
    return Anomaly(
        run_id="run", kind=kind, series=series, onset=(1, 2), severity=0.5, statement="", evidence=(), probe={}
    )


@pytest.mark.parametrize(
    ("anomalies", "expected"),
    [
        ([_anomaly("throughput", "tflops")], Nature.INFRASTRUCTURE),
        ([_anomaly("rank_departure", "step_time_s@rank=3")], Nature.INFRASTRUCTURE),
        ([_anomaly("self_check", "self_check@rank=3")], Nature.MACHINE),
        ([_anomaly("rank_departure", "loss@rank=3")], None),
        ([_anomaly("eval_break", "eval_loss")], Nature.MEASUREMENT),
        ([_anomaly("spike", "loss")], Nature.BENIGN),
        ([_anomaly("fork_departure", "loss"), _anomaly("resume", "lr")], Nature.RESUME),
        ([_anomaly("spike", "loss"), _anomaly("throughput", "tflops")], None),
        ([_anomaly("divergence", "loss")], None),
    ],
)
def test_what_a_finding_looks_like_by_itself(anomalies: list[Anomaly], expected: Nature | None) -> None:
    assert nature_of(anomalies) is expected
    if expected is not None:
        looks, overturn = in_words(expected)
        assert looks.startswith("it looks")
        assert overturn


def test_what_the_anomaly_is_measured_on_is_no_guard() -> None:
    """A loss that was too good has to rise; then the gradients are watched."""

    def probe(*series: str) -> Probe:
        ones = (1.0,) * len(series)
        return Probe(series=series, reading=Reading.LEVEL, normal=ones, anomalous=ones, noise=ones, since=1, until=2)

    assert list(guards_of(probe("max_vio"))) == ["lm_loss", "loss", "grad_norm"]
    assert list(guards_of(probe("mixture/source.pages"))) == ["grad_norm"]
    assert list(guards_of(probe("lm_loss"))) == ["grad_norm"]
    assert list(guards_of(probe("grad_norm"))) == ["lm_loss", "loss"]
