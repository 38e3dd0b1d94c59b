"""A smaller training points where a proof cannot be paid for; it never proves, excludes or mends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from world import ATTENTION, NOW, README, SCALE, World

from context_store.records import Amount
from contracts.enums import CauseKind, DiagnosticKind, Scope, Verdict
from control_plane.cli.investigate import work_on
from control_plane.demo.faults import find_fault
from control_plane.demo.history import lay_out
from control_plane.demo.pair import RESUMES
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.core import Limits
from loops.debug import detect, open_case
from loops.debug.facts import Decision, Facts, Identity, Option, Seen
from loops.debug.planner import next_step, refuted
from loops.debug.small import is_dear, share_left, smaller
from loops.runner import Runner

DECLARED = {"data.batch_size": 16, "data.seq_len": 64, "parallel.dp_size": 2, "parallel.accumulation": 1}


def test_a_step_is_made_smaller_for_every_rank() -> None:
    assert smaller(DECLARED) == {"data.batch_size": 4, "data.seq_len": 32}
    assert share_left(DECLARED) == 0.125
    assert smaller({**DECLARED, "parallel.dp_size": 16}) == {"data.seq_len": 32}
    assert smaller({**DECLARED, "data.seq_len": 30, "parallel.cp_size": 4}) == {"data.batch_size": 4}
    assert smaller({"n_layer": 2}) == {}  # a training that nobody here wrote


@pytest.mark.parametrize(("whole", "small", "budget", "dear"), [(10, 2, 60, 0), (10, 2, 40, 1), (10, 9, 40, 0)])
def test_a_run_at_full_size_comes_first_where_it_can_be_paid(whole: int, small: int, budget: int, dear: int) -> None:
    assert is_dear(whole, small, budget) is bool(dear)


def test_what_is_found_in_small_is_a_pointer() -> None:
    """Every re-run is a proxy; the decision is no proof, and nothing is excluded by it."""
    seen: dict[Identity, Seen] = {}
    options = tuple(Option(key=key, title=key, cause_kind=CauseKind.CODE) for key in "ABC")
    facts = Facts(ranked=options, chronological=tuple("ABC"), placebos=tuple("CBA"), seen=seen.get, is_dear=True)
    for _ in range(12):
        step = next_step(facts)
        if isinstance(step, Decision):
            break
        assert all(each.small and each.kind is DiagnosticKind.PROXY for each in step)
        seen.update({each.identity: Seen.PRESENT if "B" in each.on else Seen.ABSENT for each in step})
    assert isinstance(step, Decision)
    assert (step.verdict, step.cause) == (Verdict.CANNOT_TELL, ())
    assert "a smaller training points to B" in step.reason
    assert refuted(facts, step) == ()
    assert not isinstance(next_step(replace(facts, is_dear=False)), Decision)  # at full size nothing is known yet


def test_a_case_with_little_to_spend_ends_in_a_pointer(world: World, new_runner: Callable[..., Runner]) -> None:
    heads = world.lay_out([README], [ATTENTION, SCALE])
    world.train("run", heads)
    case_id = open_case(world.store, "run", detect(world.store, "run"), NOW)
    assert case_id is not None
    new_runner(limits=Limits(cpu_s=80.0)).start("debug", case_id)
    (verdict,) = world.store.knowledge.verdicts(case_id)
    assert (verdict.verdict, verdict.scope, verdict.suspect_keys) == (Verdict.CANNOT_TELL, Scope.SAME_CODE_SMALL, ())
    assert f"points to {world.commits[SCALE.subject][:8]}" in verdict.statement
    assert {each.kind for each in world.store.knowledge.diagnostics(case_id)} == {DiagnosticKind.PROXY}
    assert world.store.proposals.list(investigation_id=case_id) == []
    report = world.store.knowledge.report(case_id)
    assert "in small: without" in report
    assert "point to a cause without proving it" in report


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_training_in_small(short_folder: Path) -> None:
    """The embedded trainer really runs with fewer and shorter sequences, and points to the planted commit."""
    fault = find_fault("over_balance")
    settings = Settings(home=short_folder / "home", backend="local", num_cpus=2, fresh_seeds=0, embedder="hashed")
    with Lathe.open(settings) as lathe:
        history = lay_out(short_folder / "project", fault, 1)
        project = register_project(lathe.store, history.project)
        wish = TrainingRequest(run_id="run", project=project, commit=history.early, seed=1, max_step=RESUMES[1])
        follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
        follow(lathe.backend, lathe.shipper, lathe.trainings.go_on("run", commit=history.head, max_step=200))
        case_id = open_case(lathe.store, "run", detect(lathe.store, "run"), time.time())
        assert case_id is not None
        lathe.store.budgets.open(case_id, Amount(cpu_s=75.0, reruns=40, wall_s=3600.0))
        work_on(lathe, case_id)
        (verdict,) = lathe.store.knowledge.verdicts(case_id)
        ran = lathe.store.knowledge.diagnostics(case_id)
        declared = [lathe.store.runs.declared(each.run_id, 0) for each in ran if each.measure is not None]
    assert {each.kind for each in ran} == {DiagnosticKind.PROXY}
    assert verdict.scope is Scope.SAME_CODE_SMALL
    assert f"points to {history.faulty[0][:8]}" in verdict.statement, verdict.statement
    assert all(each["data.batch_size"] == 4 for each in declared)
