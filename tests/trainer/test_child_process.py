"""The training as a real process: how it ends, what it leaves, and that nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_training import SMALL, Trainings, read_log

from contracts.backend import CHECKPOINT_GRANTED, CHECKPOINT_WISH, PAUSE_GRANTED, PAUSE_WISH
from contracts.events import CheckpointSaved, CodeExecuted, Finished, Metrics, SegmentStarted, segment_folder
from trainer import TrainConfig
from trainer.checkpoint import load_checkpoint


def wait_for_step(trainings: Trainings, process: subprocess.Popen[str], step: int) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if (trainings.run_folder / "segment-000" / "events.log").exists():
            events = read_log(trainings.run_folder).events
            if any(isinstance(event, Metrics) and event.step >= step for event in events):
                return
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not reached: {process.communicate()[1]}")


def test_completes_and_records_the_project(trainings: Trainings) -> None:
    """Recipe, overrides and seed arrive; the project's files and executed lines are recorded; then nothing is left."""
    process = trainings.start(overrides={"moe.top_k": 1, "diagnostics.console_every": 2}, seed=7, max_step=4)
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    trace = read_log(trainings.run_folder)
    assert list(trace.metrics) == [1, 2, 3, 4]
    assert trace.finished == Finished(step=4, reason="completed")
    started = trace.of(SegmentStarted)[0]
    assert (
        started.config
        == TrainConfig().with_overrides(SMALL | {"moe.top_k": 1, "diagnostics.console_every": 2, "seed": 7}).flat()
    )
    assert started.seed == 7
    (executed,) = trace.of(CodeExecuted)
    assert (executed.step, list(executed.modules)) == (2, ["recipe.py"])
    assert executed.lines == {"recipe.py": [1, 4, 5, 6, 7]}
    assert [line.split()[1] for line in output.splitlines()] == ["2", "4"]
    again = trainings.start(max_step=4)
    assert again.wait() == 0
    assert read_log(trainings.run_folder) == trace


def test_kill_loses_no_acknowledged_step(trainings: Trainings) -> None:
    """SIGKILL at some step; started again, the same segment goes on and ends as if nothing had happened."""
    process = trainings.start(max_step=60)
    wait_for_step(trainings, process, 15)
    process.kill()
    process.communicate()
    acknowledged = read_log(trainings.run_folder)
    assert not acknowledged.of(Finished)
    again = trainings.start(max_step=60)
    assert again.wait() == 0, again.stderr
    trace = read_log(trainings.run_folder)
    assert trace.events[: len(acknowledged.events)] == acknowledged.events
    assert list(trace.metrics) == list(range(1, 61))
    assert trace.metrics | acknowledged.metrics == trace.metrics
    whole = Trainings(run_folder=trainings.run_folder.with_name("whole"), project=trainings.project)
    uninterrupted = whole.here(TrainConfig().with_overrides(SMALL), max_step=60)
    assert trace.metrics == uninterrupted.metrics
    assert trace.of(CheckpointSaved)[-1].sha256 == uninterrupted.of(CheckpointSaved)[-1].sha256


def test_a_pause_changes_nothing(trainings: Trainings) -> None:
    """A checkpoint, no further step while it lasts, and afterwards the same numbers as without it."""
    folder = segment_folder(trainings.run_folder, 0)
    process = trainings.start(overrides={"checkpoint.every": 10_000}, max_step=80)
    wait_for_step(trainings, process, 5)
    (folder / CHECKPOINT_WISH).write_text("first")
    (folder / PAUSE_WISH).touch()
    wait_for_file(folder / PAUSE_GRANTED)
    paused = read_log(trainings.run_folder)
    assert (folder / CHECKPOINT_GRANTED).read_text() == "first"
    assert paused.of(CheckpointSaved)[-1].step == max(paused.metrics)
    time.sleep(0.3)
    assert read_log(trainings.run_folder) == paused
    (folder / PAUSE_WISH).unlink()
    assert process.wait() == 0
    whole = Trainings(run_folder=trainings.run_folder.with_name("whole"), project=trainings.project)
    assert (
        read_log(trainings.run_folder).metrics == whole.here(TrainConfig().with_overrides(SMALL), max_step=80).metrics
    )


def wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.01)


def test_terminate_saves_and_says_so(trainings: Trainings) -> None:
    """SIGTERM ends with a checkpoint of the last step; the same launch goes on from it."""
    process = trainings.start(overrides={"checkpoint.every": 10_000}, max_step=100_000)
    wait_for_step(trainings, process, 3)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0
    trace = read_log(trainings.run_folder)
    stopped = trace.finished
    assert stopped.reason == "stopped"
    (saved,) = trace.of(CheckpointSaved)
    assert (saved.step, stopped.step) == (max(trace.metrics), max(trace.metrics))
    assert load_checkpoint(Path(saved.path)).step == saved.step
    again = trainings.start(max_step=stopped.step + 2)
    assert again.wait() == 0
    steps = [event.step for event in read_log(trainings.run_folder).of(Metrics)]
    assert steps == list(range(1, stopped.step + 3))


def test_mistake_is_one_message(trainings: Trainings) -> None:
    """Exit status 2, the field's name and a remedy on the error output, no traceback, and the log says the same."""
    process = trainings.start(overrides={"moe.balance.coeff": 1.0})
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "unknown config field 'moe.balance.coeff'" in errors
    assert "remedy: did you mean moe.balance.coef" in errors
    assert "Traceback" not in errors
    finished = read_log(trainings.run_folder).finished
    assert (finished.reason, finished.message) == ("failed", "unknown config field 'moe.balance.coeff'")


def test_launch_that_cannot_be_read(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "trainer.child", str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert process.returncode == 2
    assert "no launch can be read" in process.stderr


def test_full_disk(trainings: Trainings, tmp_path: Path) -> None:
    """A disk that fills up ends the training with a remedy; the log stays readable up to the last whole step."""
    launch = trainings.launch(max_step=10_000)
    trainings.run_folder.mkdir()
    (tmp_path / "launch.json").write_text(launch.to_json())
    kept = tmp_path / "kept"
    script = (
        f"mount -t tmpfs -o size=400k none {launch.run_folder} && "
        f"{sys.executable} -m trainer.child {tmp_path / 'launch.json'}; code=$?; "
        f"cp -r {launch.run_folder} {kept}; exit $code"
    )
    isolated = ["unshare", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*isolated, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let a test mount a small disk")
    process = subprocess.run([*isolated, "sh", "-c", script], capture_output=True, text=True, cwd=trainings.project)
    assert process.returncode == 3
    assert "no space left for" in process.stderr
    assert "Traceback" not in process.stderr
    trace = read_log(kept)
    assert sorted(trace.metrics) == list(range(1, max(trace.metrics) + 1))
    assert all(load_checkpoint(kept / "checkpoints" / Path(e.path).name) for e in trace.of(CheckpointSaved))
