"""Effects: carried out once, by real processes, and refused when they are not what was approved."""

from __future__ import annotations

import dataclasses
import errno
import time
from pathlib import Path
from typing import Any

import pytest
from case import (
    CASE,
    RUN,
    apply,
    approve,
    diagnostic,
    drive,
    finish,
    propose_fix,
    propose_start,
    segments,
)
from small_project import SmallProject, git, until

from context_store.records import Amount, Effect, EffectRequest, NewProposal
from contracts.backend import Launch
from contracts.enums import EffectKind, EffectState, RunRole, RunState, TimelineKind
from control_plane.backends.metered import SpentNotes
from control_plane.backends.segment import finished_event
from control_plane.effects import Landed, Workshop, handlers
from control_plane.effects.effect_kind import Result
from control_plane.executor import Executor
from control_plane.wiring import Lathe
from control_plane.worktrees import Tree


def test_a_diagnostic_runs_the_patched_code_from_the_checkpoint(lathe: Lathe, bad_run: SmallProject) -> None:
    diagnostic(lathe, bad_run)
    effect = finish(lathe, "d1")
    assert effect.state == EffectState.DONE
    assert effect.result["reason"] == "completed"
    assert effect.result["last_step"] == 40
    assert "-SLOPE = 0.5\n+SLOPE = -0.01\n" in effect.result["diff"]
    run = lathe.store.runs.get("rr-d1")
    assert (run.role, run.parent_run_id, run.parent_step) == (RunRole.DIAGNOSTIC, RUN, 10)
    loss = lathe.store.series.read("rr-d1", "loss")
    assert loss.steps.tolist() == list(range(11, 41))
    assert loss.values[-1] == pytest.approx(4.0 - 0.01 * 40)


def test_a_diagnostic_keeps_seed_and_overrides_of_its_source(lathe: Lathe, bad_run: SmallProject) -> None:
    diagnostic(lathe, bad_run, overrides={"slope": 0.25})
    assert finish(lathe, "d1").state == EffectState.DONE
    declared = lathe.store.runs.declared("rr-d1", 0)
    assert (declared["step_s"], declared["slope"]) == (0.001, 0.25)


def test_several_diagnostics_run_at_the_same_time(lathe: Lathe, bad_run: SmallProject) -> None:
    for key in ("d1", "d2", "d3"):
        diagnostic(lathe, bad_run, key)
    executor = lathe.executor("worker-a")
    executor.step()
    running = lathe.store.effects.list(investigation_id=CASE, state=EffectState.RUNNING)
    assert len(running) == lathe.settings.num_cpus
    drive(executor, lambda: len(lathe.store.effects.list(state=EffectState.DONE)) == 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"code": {"base": "0" * 40, "revert": [], "pick": []}}, "has no commit"),
        ({"start_step": -1}, "start_step"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_cannot_be_done_fails_with_the_reason(
    lathe: Lathe, bad_run: SmallProject, changes: dict[str, Any], words: str
) -> None:
    diagnostic(lathe, bad_run, **changes)
    effect = finish(lathe, "d1")
    assert effect.state == EffectState.FAILED
    assert words in effect.message
    assert effect.remedy


def test_a_training_that_dies_again_and_again_fails_the_effect(lathe: Lathe, bad_run: SmallProject) -> None:
    diagnostic(lathe, bad_run, overrides={"die_at": 40})
    effect = finish(lathe, "d1")
    assert effect.state == EffectState.FAILED
    assert "SIGKILL" in effect.message
    assert effect.result["cpu_s"] > 0, "of all three attempts"
    assert lathe.store.series.read("rr-d1", "loss").steps[-1] == 40, "what it wrote is kept"


def test_a_rerun_is_ended_when_it_uses_more_than_was_reserved(lathe: Lathe, bad_run: SmallProject) -> None:
    """Reservations are enforced while it runs, not only settled afterwards; what was spent is what is booked."""
    lathe.store.budgets.open(CASE, Amount(cpu_s=100.0, reruns=9))
    lathe.store.budgets.reserve(CASE, "d1", Amount(cpu_s=1.0, reruns=1))
    diagnostic(lathe, bad_run, overrides={"busy": True, "step_s": 0.5})
    effect = finish(lathe, "d1")
    assert effect.state == EffectState.FAILED
    assert "1.0 were reserved" in effect.message
    assert 1.0 < effect.result["cpu_s"] < 5.0
    assert lathe.store.budgets.state(CASE).cpu_s_used == effect.result["cpu_s"]
    assert lathe.store.runs.get("rr-d1").state is RunState.FAILED


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left"),
        (ValueError("surprise"), "a defect of Lathe: ValueError: surprise"),
    ],
)
def test_an_unexpected_exception_fails_its_effect_only(
    lathe: Lathe, bad_run: SmallProject, error: Exception, words: str
) -> None:
    """The next effect is carried out by the same executor."""

    class Faulty:
        kind = EffectKind.RESUME_WITH_PATCH

        def check(self, effect: Effect) -> Tree:
            raise error

        def do(self, effect: Effect, tree: Tree | None) -> Launch | None:
            raise NotImplementedError

        def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
            raise NotImplementedError

    spent = SpentNotes(folder=lathe.settings.spent_folder)
    workshop = Workshop(
        store=lathe.store, worktrees=lathe.worktrees, runs_folder=lathe.settings.runs_folder, spent=spent
    )
    executor = Executor(
        store=lathe.store,
        backend=lathe.backend,
        shipper=lathe.shipper,
        handlers=(*handlers(workshop), Faulty()),
        worker="worker-a",
        slots=1,
        spent=spent,
        clock=time.time,
    )
    proposal = propose_fix(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    diagnostic(lathe, bad_run)
    drive(executor, lambda: lathe.store.effects.get("d1").state == EffectState.DONE)
    failed = lathe.store.effects.get("apply-1")
    assert failed.state == EffectState.FAILED
    assert words in failed.message
    assert failed.remedy


def test_an_approved_fix_enters_the_continuing_run(lathe: Lathe, bad_run: SmallProject) -> None:
    """Shows RM2-7.20: patched on a branch, on from the last good checkpoint, and beside it the arm nobody touched."""
    proposal = propose_fix(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.DONE, effect.message
    assert effect.result["segment"] == 1
    assert git(bad_run.folder, "rev-parse", "lathe/fix-1") == effect.result["commit"]
    assert git(bad_run.folder, "rev-parse", "lathe/fix-1^") == bad_run.bad
    segment = lathe.store.runs.segments(RUN)[-1]
    assert (segment.start_step, segment.code_version) == (10, effect.result["commit"])
    loss = lathe.store.series.read(RUN, "loss")
    assert loss.steps.tolist() == list(range(1, 41))
    assert loss.values[9] == 4.0 + 0.5 * 10
    assert loss.values[10] == pytest.approx(4.0 - 0.01 * 11)
    (decision,) = lathe.store.timeline.list(RUN, kinds=[TimelineKind.APPROVAL])
    assert (decision.step, decision.segment) == (10, 1)
    assert "approved by ada" in decision.title
    picture = lathe.store.series.downsample(RUN, "loss", buckets=50, view="full")
    assert picture.segments.tolist().count(0) == 30, "what the fix superseded stays in the full view"
    assert picture.segments.tolist().count(1) == 30


def take_back(lathe: Lathe, key: str = "undo-1") -> Effect:
    request = EffectRequest(
        key=key, kind=EffectKind.UNDO, payload={"effect": "apply-1"}, investigation_id=CASE, actor="loop:debug"
    )
    lathe.store.effects.request(request)
    return finish(lathe, key)


def test_a_fix_is_taken_back_once(lathe: Lathe, bad_run: SmallProject) -> None:
    """The run goes on from where the fix began, with code, overrides and seed from before it."""
    proposal = propose_fix(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    assert finish(lathe, "apply-1").state == EffectState.DONE
    undone = take_back(lathe)
    assert undone.state == EffectState.DONE, undone.message
    segment = lathe.store.runs.segments(RUN)[-1]
    assert (segment.number, segment.start_step, segment.code_version) == (2, 10, bad_run.bad)
    assert lathe.store.runs.declared(RUN, 2) == lathe.store.runs.declared(RUN, 0)
    assert lathe.store.series.read(RUN, "loss").values[-1] == 4.0 + 0.5 * 40
    again = take_back(lathe, "undo-2")
    assert again.state == EffectState.REFUSED
    assert "was taken back before" in again.message


def test_only_what_was_approved_and_done_can_be_taken_back(lathe: Lathe, bad_run: SmallProject) -> None:
    apply(lathe, propose_fix(lathe, bad_run))
    assert finish(lathe, "apply-1").state == EffectState.REFUSED
    undone = take_back(lathe)
    assert undone.state == EffectState.REFUSED
    assert "was not carried out under an approval" in undone.message
    assert segments(lathe.settings.runs_folder / RUN) == ["segment-000"]


def test_a_fix_that_the_run_has_left_behind_is_not_taken_back(lathe: Lathe, bad_run: SmallProject) -> None:
    proposal = propose_fix(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    assert finish(lathe, "apply-1").state == EffectState.DONE
    lathe.trainings.go_on(RUN, commit=bad_run.innocent, max_step=45)
    undone = take_back(lathe)
    assert undone.state == EffectState.REFUSED
    assert "other code" in undone.message


def test_a_training_that_goes_on_is_stopped_for_its_fix(lathe: Lathe, bad_run: SmallProject) -> None:
    longer = lathe.trainings.go_on(RUN, overrides={"step_s": 0.05}, max_step=1000)
    lathe.backend.submit(longer)
    until(lambda: lathe.shipper.ship(RUN, longer.folder) > 0)
    proposal = propose_fix(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    effect = finish(lathe, "apply-1")
    assert (effect.state, effect.result["segment"]) == (EffectState.DONE, 2)
    assert [each.end_reason for each in lathe.store.runs.segments(RUN)] == ["completed", "stopped", "completed"]


def test_an_approved_training_starts_as_a_run_of_its_own(lathe: Lathe, bad_run: SmallProject) -> None:
    proposal = propose_start(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    effect = finish(lathe, "apply-1")
    assert (effect.state, effect.result["last_step"]) == (EffectState.DONE, 12)
    run = lathe.store.runs.get("run-2")
    assert (run.role, run.last_step) == (RunRole.TRAINING, 12)


def test_nothing_happens_without_an_approval(lathe: Lathe, bad_run: SmallProject) -> None:
    apply(lathe, propose_fix(lathe, bad_run))
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.REFUSED
    assert "no unused approval" in effect.message
    assert segments(lathe.settings.runs_folder / RUN) == ["segment-000"]


def test_an_approval_allows_one_effect_only(lathe: Lathe, bad_run: SmallProject) -> None:
    proposal = propose_fix(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    assert finish(lathe, "apply-1").state == EffectState.DONE
    apply(lathe, proposal, key="apply-again")
    assert finish(lathe, "apply-again").state == EffectState.REFUSED
    assert segments(lathe.settings.runs_folder / RUN) == ["segment-000", "segment-001"]


def test_a_diff_that_is_not_the_code_is_refused(lathe: Lathe, bad_run: SmallProject) -> None:
    honest = propose_fix(lathe, bad_run)
    content = {field.name: getattr(honest, field.name) for field in dataclasses.fields(NewProposal)}
    content["diff"] = honest.diff.replace("-0.01", "-0.02")
    dishonest = lathe.store.proposals.put(NewProposal(**content))
    approve(lathe, dishonest)
    apply(lathe, dishonest)
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.REFUSED
    assert "not the diff that was approved" in effect.message


def test_a_checkpoint_that_is_gone_is_refused(lathe: Lathe, bad_run: SmallProject) -> None:
    proposal = propose_fix(lathe, bad_run)
    approve(lathe, proposal)
    apply(lathe, proposal)
    folder = Path(proposal.payload["start_checkpoint"])
    folder.rename(folder.with_name("elsewhere"))
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.REFUSED
    assert "is gone" in effect.message


def test_what_was_approved_runs_whatever_was_set_since(lathe: Lathe, bad_run: SmallProject) -> None:
    """A resume with other overrides between the proposal and its execution changes nothing."""
    proposal = propose_fix(lathe, bad_run)
    later = lathe.trainings.go_on(RUN, overrides={"slope": 9.0}, max_step=35)
    lathe.backend.submit(later)
    until(lambda: finished_event(later.folder, 1) is not None)
    lathe.shipper.ship(RUN, later.folder)
    approve(lathe, proposal)
    apply(lathe, proposal)
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.DONE, effect.message
    assert lathe.store.runs.declared(RUN, 2)["slope"] == -0.01


def test_a_fix_that_names_no_segment_is_refused(lathe: Lathe, bad_run: SmallProject) -> None:
    """Its seed and overrides would be those of whatever segment is the newest when it is carried out."""
    proposal = propose_fix(lathe, bad_run, source_segment=None)
    approve(lathe, proposal)
    apply(lathe, proposal)
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.REFUSED
    assert "source_segment" in effect.message


def test_a_fix_for_code_that_no_longer_runs_is_refused(lathe: Lathe, bad_run: SmallProject) -> None:
    proposal = propose_fix(lathe, bad_run)
    lathe.trainings.go_on(RUN, commit=bad_run.good, max_step=35)
    approve(lathe, proposal)
    apply(lathe, proposal)
    effect = finish(lathe, "apply-1")
    assert effect.state == EffectState.REFUSED
    assert "went on in segment 1 with other code" in effect.message
    assert segments(lathe.settings.runs_folder / RUN) == ["segment-000", "segment-001"]
