"""One segment of a foreign training: real processes of a script that does not import Lathe."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from foreign_project import make_foreign_project, write_spec
from small_project import descendant, until

from contracts.backend import Launch, Outcome
from contracts.events import CheckpointSaved, CodeExecuted, Event, Finished, Metrics, SegmentStarted, read_events
from contracts.events import segment_folder as place
from control_plane.backends.command_registry import Registry
from control_plane.backends.segment import is_running, request_stop, run_segment

GRACE_S = 10.0
SHELL = (  # changes of the spec: `sh train.sh OUTPUT_DIR STEPS` instead
    (
        f'["{sys.executable}", "train.py", "--seed", "{{seed}}", "--steps", "{{steps}}", "--out",',
        '["sh", "train.sh",',
    ),
    ('"{output_dir}",', '"{output_dir}", "{steps}",'),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_foreign_project(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def launch(tmp_path: Path, project: Path) -> Launch:
    return connected(tmp_path, project)


def connected(home: Path, project: Path, *changes: tuple[str, str]) -> Launch:
    """A launch of 25 steps by the spec with these changes."""
    registry = Registry(home / "backends")
    registered = registry.read(write_spec(home / "spec.toml", *changes))
    registry.make_present(registered)
    return Launch(
        run_id="run-1",
        segment=0,
        run_folder=str(home / "runs" / "run-1"),
        project=str(project),
        code_version="c0ffee",
        entry=registered.entry,
        max_step=25,
    )


def run(launch: Launch) -> Outcome:
    return run_segment(launch, cancel_grace_s=GRACE_S)


def events(launch: Launch) -> list[Event]:
    path = place(launch.folder, launch.segment) / "events.log"
    return [read.event for read in read_events(path)] if path.exists() else []


def losses(launch: Launch) -> dict[int, float]:
    """By step, as the newest attempt logged them."""
    return {each.step: each.values["loss"] for each in events(launch) if isinstance(each, Metrics)}


def steps(launch: Launch) -> list[int]:
    return [each.step for each in events(launch) if isinstance(each, Metrics)]


def saved(launch: Launch) -> list[CheckpointSaved]:
    return [each for each in events(launch) if isinstance(each, CheckpointSaved)]


def test_a_foreign_training_leaves_the_events_of_our_own(launch: Launch) -> None:
    """Shows R801-3.4 for a trainer nobody here wrote: config, metrics, checkpoints and executed code are recorded."""
    outcome = run(dataclasses.replace(launch, overrides={"optim.lr": 0.25}, seed=3))
    assert (outcome.reason, outcome.last_step) == ("completed", 25)
    assert outcome.cpu_s > 0
    first, last = events(launch)[0], events(launch)[-1]
    assert isinstance(first, SegmentStarted)
    assert first.config == {"optim.lr": 0.25, "batch_size": 64, "save_every": 10, "seed": 3, "steps": 100}
    assert first.environment["backend"] == launch.entry.removeprefix("command:")
    assert first.environment["python"]
    assert isinstance(last, Finished)
    assert steps(launch) == list(range(1, 26))
    assert {name for each in events(launch) if isinstance(each, Metrics) for name in each.values} == {
        "loss",
        "grad_norm",
    }
    assert [each.step for each in saved(launch)] == [10, 20]
    assert run(launch).reason == "completed"  # and is not run twice
    assert len(steps(launch)) == 25


def test_executed_files_and_lines_are_recorded(launch: Launch, project: Path) -> None:
    with (project / "model.py").open("a") as file:
        file.write("\n\ndef unused():\n    return (\n        1\n    )\n")
    run(launch)
    executed = [each for each in events(launch) if isinstance(each, CodeExecuted)]
    modules = {path: digest for each in executed for path, digest in each.modules.items()}
    assert set(modules) == {"train.py", "model.py", "batches.py"}
    assert all(set(each.lines) <= set(each.modules) for each in executed)  # a hash never goes missing again
    ran = {line for each in executed for line in each.lines.get("model.py", [])}
    source = (project / "model.py").read_text().splitlines()
    assert source.index("    logits = hidden @ w2") + 1 in ran
    assert source.index("    return (") + 1 not in ran


def test_a_program_that_is_not_python_leaves_no_trace(tmp_path: Path, project: Path) -> None:
    """Then `executed` stays empty, which keeps verdicts at `cannot_tell`."""
    (project / "train.sh").write_text('echo \'{"step": 1, "train": {"loss": 1.5}}\' > "$1/metrics.jsonl"\n')
    launch = connected(tmp_path, project, *SHELL)
    outcome = run(launch)
    assert (outcome.reason, outcome.message) == ("stopped", "ended by itself at step 1 of 25")
    assert losses(launch) == {1: 1.5}
    assert not [each for each in events(launch) if isinstance(each, CodeExecuted)]


@pytest.mark.parametrize(("last", "reason"), [(20, "completed"), (10, "stopped")])
def test_only_a_training_that_came_to_its_end_is_complete(
    tmp_path: Path, project: Path, last: int, reason: str
) -> None:
    """Exit status 0 is not enough; a row every 10 steps may be lacking."""
    rows = "".join(f'{{"step": {step}, "train": {{"loss": 1.5}}}}\n' for step in range(10, last + 1, 10))
    (project / "rows").write_text(rows)
    (project / "train.sh").write_text('cp rows "$1/metrics.jsonl"\n')
    launch = connected(tmp_path, project, *SHELL)
    outcome = run(launch)
    assert (outcome.reason, outcome.last_step) == (reason, last)


def test_the_cpu_limit_holds_for_what_the_command_starts(launch: Launch, project: Path) -> None:
    """A worker that nobody waits for counts, is killed too, and the outcome says why."""
    (project / "train.py").write_text(
        "import os, subprocess, sys\n"
        "busy = subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True)\n"
        "open('worker', 'w').write(str(busy.pid))\n"
        "while True: pass\n"
    )
    outcome = run(dataclasses.replace(launch, cpu_limit_s=3.0))
    assert outcome.reason == "over_budget"
    assert outcome.cpu_s > 3.0
    worker = int((project / "worker").read_text())
    until(lambda: not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE)


def test_going_on_from_a_checkpoint_is_bitwise_equal(launch: Launch, tmp_path: Path) -> None:
    run(launch)
    resumed = dataclasses.replace(
        launch, run_id="run-2", run_folder=str(tmp_path / "runs" / "run-2"), start_checkpoint=saved(launch)[0].path
    )
    run(resumed)
    first = events(resumed)[0]
    assert isinstance(first, SegmentStarted)
    assert first.start_step == 10
    assert losses(resumed) == {step: loss for step, loss in losses(launch).items() if step > 10}


def test_checkpoints_outlive_the_clean_up_of_the_training(launch: Launch, project: Path) -> None:
    source = (project / "train.py").read_text()
    pause = "            time.sleep(options.pause_s)\n"
    clean_up = '            if step == 21:\n                os.remove(os.path.join(options.out, "ckpt-00010.npz"))\n'
    (project / "train.py").write_text(source.replace(pause, clean_up + pause))
    run(dataclasses.replace(launch, overrides={"pause_s": 0.03}))
    kept = saved(launch)[0]
    assert kept.step == 10
    assert (Path(kept.path) / "ckpt-00010.npz").stat().st_size == kept.size_bytes


def test_a_killed_training_goes_on_and_no_logged_step_is_lost(launch: Launch) -> None:
    slow = dataclasses.replace(launch, overrides={"pause_s": 0.05})
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, slow)
        until(lambda: len(steps(slow)) >= 13)
        descendant("train.py").kill()
        outcome = running.result()
    assert outcome.reason == "died"
    assert "SIGKILL" in outcome.message
    before = losses(slow)
    assert run(launch).reason == "completed"
    assert sorted(losses(launch)) == list(range(1, 26))
    assert {step: losses(launch)[step] for step in before} == before
    assert len(steps(launch)) < len(before) + 25  # it did not begin again


def test_nothing_is_lost_or_left_when_the_watcher_is_killed(launch: Launch, tmp_path: Path) -> None:
    slow = dataclasses.replace(launch, overrides={"pause_s": 0.05})
    watcher = subprocess.Popen(
        [sys.executable, "-m", "control_plane.backends.watch", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    )
    assert watcher.stdin is not None
    watcher.stdin.write(slow.to_json())
    watcher.stdin.close()
    until(lambda: len(steps(slow)) >= 13)
    children = psutil.Process(watcher.pid).children(recursive=True)
    assert any("train.py" in each.cmdline() for each in children)
    watcher.send_signal(signal.SIGKILL)
    watcher.wait()
    psutil.wait_procs(children, timeout=10)
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in children)
    assert not is_running(slow.folder, 0)
    written = [
        json.loads(line)["step"]
        for line in (attempt(slow, 1) / "output" / "metrics.jsonl").open()
        if line.endswith("\n")
    ]
    assert run(launch).reason == "completed"
    assert set(written) <= set(steps(launch))  # what the killed translator had not read was read before the next start
    assert sorted(losses(launch)) == list(range(1, 26))


def test_a_stop_request_reaches_the_training(launch: Launch) -> None:
    slow = dataclasses.replace(launch, overrides={"pause_s": 0.05}, max_step=10_000)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, slow)
        until(lambda: len(steps(slow)) >= 3)
        request_stop(slow)
        outcome = running.result()
    assert outcome.reason == "stopped"
    assert not is_running(slow.folder, 0)


def test_a_training_that_fails_says_so_and_may_be_run_again(launch: Launch) -> None:
    outcome = run(dataclasses.replace(launch, overrides={"crash_at": 12}))
    assert (outcome.reason, outcome.last_step) == ("failed", 12)
    assert "out of luck" in outcome.message
    assert "stderr.txt" in outcome.remedy
    assert run(launch).reason == "completed"
    assert sorted(losses(launch)) == list(range(1, 26))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('file = "metrics.jsonl"', 'file = "other.jsonl"'), "looks at other.jsonl"),
        (("[log]\n", '[log]\nstep = "iteration"\n'), "25 records there have no step"),
        (('"train.py"', '"nothing.py"'), "No such file"),
        (('base = "config.json"', 'base = "nothing.json"'), "config.base"),
        ((f'"{sys.executable}"', '"no-such-program"'), "'no-such-program' was not found"),
    ],
)
def test_what_is_wrong_with_the_spec_is_said(
    tmp_path: Path, project: Path, change: tuple[str, str], message: str
) -> None:
    outcome = run(connected(tmp_path, project, change))
    assert outcome.reason == "failed"
    assert message in outcome.message
    assert outcome.remedy


def test_a_spec_that_was_changed_or_never_added_is_refused(launch: Launch, tmp_path: Path) -> None:
    """A launch cannot bring a command along: it names a version that a person added."""
    (kept,) = (tmp_path / "backends").glob("tiny@*.toml")
    kept.write_text(kept.read_text().replace("train.py", "evil.py"))
    assert "was changed" in run(launch).message
    other = dataclasses.replace(
        launch, run_folder=str(tmp_path / "runs" / "run-2"), entry="command:../../evil@" + 12 * "0"
    )
    assert "names no backend" in run(other).message


def attempt(launch: Launch, number: int) -> Path:
    return place(launch.folder, launch.segment) / f"attempt-{number}"
