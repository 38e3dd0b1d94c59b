"""Effects through faults: a killed executor, one that hands over, a database that goes away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from case import RUN, apply, approve, diagnostic, drive, finish, propose_fix, segments, train_bad_run
from small_project import SmallProject, git, until

from context_store import EmbeddedPostgres
from context_store.records import Amount
from contracts.enums import EffectState
from contracts.errors import DatabaseUnavailable
from control_plane.backends.metered import SpentNotes
from control_plane.settings import Settings
from control_plane.wiring import Lathe

EXECUTOR = """
import sys, time
from control_plane.settings import load_settings
from control_plane.wiring import Lathe
with Lathe.open(load_settings()) as lathe:
    executor = lathe.executor("doomed")
    while True:
        executor.step()
        time.sleep(0.002)
"""


def branch_made(lathe: Lathe, small: SmallProject) -> bool:
    return git(small.folder, "branch", "--list", "lathe/fix-1") != ""


def segment_made(lathe: Lathe, small: SmallProject) -> bool:
    return (lathe.settings.runs_folder / RUN / "segment-001").exists()


def steps_made(lathe: Lathe, small: SmallProject) -> bool:
    return (lathe.settings.runs_folder / RUN / "segment-001" / "events.log").exists()


@pytest.mark.parametrize("moment", [branch_made, segment_made, steps_made])
def test_a_killed_executor_repeats_nothing(
    lathe: Lathe, bad_run: SmallProject, settings: Settings, moment: Callable[[Lathe, SmallProject], bool]
) -> None:
    """The witnesses are outside the database: git's reflog and the run folder."""
    proposal = propose_fix(lathe, bad_run, overrides={"step_s": 0.03})
    approve(lathe, proposal)
    apply(lathe, proposal)
    environment = {**os.environ, **settings.as_environment()}
    doomed = subprocess.Popen([sys.executable, "-c", EXECUTOR], env=environment)
    until(lambda: moment(lathe, bad_run))
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.wait()
    effect = finish(lathe, "apply-1", clock=lambda: time.time() + 60)
    assert effect.state == EffectState.DONE, effect.message
    assert effect.attempt == 2
    assert git(bad_run.folder, "reflog", "lathe/fix-1", "--format=%H").split() == [effect.result["commit"]]
    assert segments(lathe.settings.runs_folder / RUN) == ["segment-000", "segment-001"]
    assert lathe.store.series.read(RUN, "loss").steps.tolist() == list(range(1, 41))


def kill_executor(doomed: subprocess.Popen[bytes]) -> None:
    os.kill(doomed.pid, signal.SIGKILL)


def kill_watcher(doomed: subprocess.Popen[bytes]) -> None:
    """As when Ray's worker is killed; the executor starts the training again."""
    (watcher,) = (
        each for each in psutil.Process(doomed.pid).children() if "control_plane.backends.watch" in each.cmdline()
    )
    watcher.kill()


@pytest.mark.parametrize("kill", [kill_executor, kill_watcher])
def test_what_a_killed_process_had_spent_is_booked(
    lathe: Lathe, bad_run: SmallProject, settings: Settings, kill: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    """Whoever goes on gets only what is left of the reservation, CPU and wall seconds; half a second may be missing."""
    amount = Amount(cpu_s=3.0, reruns=1, wall_s=60.0)
    lathe.store.budgets.open("metered", amount)
    lathe.store.budgets.reserve("metered", "d1", amount)
    diagnostic(lathe, bad_run, overrides={"busy": True, "step_s": 1.0})
    notes = SpentNotes(folder=settings.spent_folder)
    doomed = subprocess.Popen([sys.executable, "-c", EXECUTOR], env={**os.environ, **settings.as_environment()})
    try:
        until(lambda: notes.read("d1").cpu_s > 1.0)
        kill(doomed)
        before = notes.read("d1")
        if kill is kill_executor:
            doomed.wait()
            finish(lathe, "d1", clock=lambda: time.time() + 60)
        else:
            until(lambda: lathe.store.effects.get("d1").state is EffectState.FAILED)
    finally:
        doomed.kill()
        doomed.wait()
    effect = lathe.store.effects.get("d1")
    assert effect.state is EffectState.FAILED
    assert "were reserved for it" in effect.message
    assert before.cpu_s > 1.0
    assert 3.0 < effect.result["cpu_s"] < 5.0, "by both starts together"
    assert effect.result["wall_s"] >= before.wall_s
    used = lathe.store.budgets.state("metered").used
    assert (used.cpu_s, used.wall_s, used.reruns) == (effect.result["cpu_s"], effect.result["wall_s"], 1)


def test_leases_that_were_given_back_are_taken_over_at_once(lathe: Lathe, bad_run: SmallProject) -> None:
    diagnostic(lathe, bad_run, overrides={"step_s": 0.02})
    first = lathe.executor("worker-a")
    first.step()
    first.release()
    second = lathe.executor("worker-b")
    drive(second, lambda: lathe.store.effects.get("d1").state == EffectState.DONE)
    assert lathe.store.effects.get("d1").worker == "worker-b"


def test_a_database_that_goes_away_loses_nothing(
    tmp_path: Path, settings: Settings, small_project: SmallProject
) -> None:
    """The training goes on meanwhile, and everything it wrote is loaded once the database is back."""
    server = EmbeddedPostgres(Path(tempfile.mkdtemp(prefix="lt")))
    try:
        with Lathe.open(settings.model_copy(update={"database_url": server.start()})) as lathe:
            train_bad_run(lathe, small_project)
            diagnostic(lathe, small_project, overrides={"step_s": 0.03})
            executor = lathe.executor("worker-a")
            executor.step()
            server.stop()
            with pytest.raises(DatabaseUnavailable) as caught:
                lathe.store.runs.list()
            with suppress(DatabaseUnavailable):
                executor.step()
            assert caught.value.remedy
            server.start()
            drive(executor, lambda: lathe.store.effects.get("d1").state == EffectState.DONE)
            assert lathe.store.series.read("rr-d1", "loss").steps.tolist() == list(range(11, 41))
    finally:
        server.stop()
        shutil.rmtree(server.folder)
