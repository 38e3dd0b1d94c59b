"""A training that hangs is told once, and one that works is never. Shows R801-3.1 (no data is a finding)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from small_project import SmallProject, descendant, until
from test_schedules import once, set_one

from contracts.enums import Verdict
from control_plane.cli.investigate import work_on
from control_plane.projects import register_project
from control_plane.silence import SilenceWatch
from control_plane.trainings import TrainingRequest
from control_plane.wiring import Lathe
from loops.debug import detect, open_case
from loops.debug.silence import Pause, allowed_s, silence
from loops.debug.view import RunView, make_view


def _view(step_s: float, longest_s: float, apart: int = 1) -> RunView:
    times = np.full(100, step_s)
    times[50] = longest_s
    return make_view("run", np.arange(1, 101) * apart, {"step_time_s": times})


@pytest.mark.parametrize(
    ("view", "limit"),
    [(_view(0.05, 1.0), 120.0), (_view(30.0, 31.0), 600.0), (_view(1.0, 400.0), 800.0), (_view(1.0, 1.0, 50), 1000.0)],
)
def test_how_long_a_run_may_be_silent_follows_from_its_own_pauses(view: RunView, limit: float) -> None:
    assert allowed_s(view) == limit
    assert silence(view, Pause(quiet_s=limit, alive=True)) is None
    found = silence(view, Pause(quiet_s=limit + 1, alive=True))
    assert found is not None
    assert "hangs" in found.statement


def test_a_process_that_is_gone_is_not_waited_for() -> None:
    found = silence(_view(30.0, 31.0), Pause(quiet_s=31.0, alive=False))
    assert found is not None
    assert "gone" in found.statement


def test_a_training_that_hangs_is_told_once(lathe: Lathe, small_project: SmallProject) -> None:
    project = register_project(lathe.store, small_project.folder)
    launch = lathe.trainings.begin(
        TrainingRequest(
            run_id="run-1", project=project, commit=small_project.bad, overrides={"step_s": 0.05}, max_step=1000
        )
    )
    lathe.shipper.begin(launch)
    lathe.backend.submit(launch)
    watch = SilenceWatch(lathe.store)
    set_one(lathe.store, at=0.0)
    until(lambda: lathe.shipper.ship("run-1", Path(launch.run_folder)) > 0 and _last_step(lathe) > 3)
    assert watch.look(1000.0) == []
    until(lambda: lathe.shipper.ship("run-1", Path(launch.run_folder)) > 0)
    assert watch.look(9000.0) == []  # it has gone on meanwhile
    child = descendant("trainer.child")
    os.kill(child.pid, signal.SIGSTOP)
    lathe.shipper.ship("run-1", Path(launch.run_folder))
    assert once(lathe, time.time()).last_message == "looked at 1 runs, opened 0 cases"
    try:
        watch.look(9100.0)
        (said,) = watch.look(19000.0)
        assert said.startswith("run-1: no step has come for")
        assert watch.look(29000.0) == []
        looked = [once(lathe, time.time() + wait).last_message for wait in (61, 122)]
        assert looked == ["looked at 1 runs, opened 1 cases", "looked at 0 runs, opened 0 cases"]
        (case,) = lathe.store.knowledge.investigations(run_id="run-1")
        assert case.title == said.removeprefix("run-1: ")
        assert open_case(lathe.store, "run-1", detect(lathe.store, "run-1"), 1.0) == case.id
        work_on(lathe, case.id)
        verdict = lathe.store.knowledge.verdicts(case.id)[0]
        assert verdict.verdict is Verdict.CANNOT_TELL
        assert "infrastructure" in verdict.statement
    finally:
        os.kill(child.pid, signal.SIGCONT)
    (found,) = lathe.store.knowledge.anomalies(run_id="run-1")
    assert (found.kind, found.onset[0]) == ("no_data", _last_step(lathe) + 1)
    assert "hangs" in found.statement


def _last_step(lathe: Lathe) -> int:
    return lathe.store.runs.get("run-1").last_step
