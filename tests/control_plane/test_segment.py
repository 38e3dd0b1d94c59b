"""Supervision of one segment: real child processes of a small training."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from small_project import SmallProject, until

from contracts.backend import Launch
from contracts.errors import DiskFull
from contracts.events import Metrics, read_events, segment_folder
from control_plane.backends.segment import is_running, request_stop, run_segment, withdraw_stop

GRACE_S = 10.0


@pytest.fixture
def launch(tmp_path: Path, small_project: SmallProject) -> Launch:
    return Launch(
        run_id="run-1",
        segment=0,
        run_folder=str(tmp_path / "run-1"),
        project=str(small_project.folder),
        code_version=small_project.bad,
        max_step=25,
    )


def steps(launch: Launch) -> list[int]:
    path = segment_folder(launch.folder, launch.segment) / "events.log"
    return [read.event.step for read in read_events(path) if isinstance(read.event, Metrics)]


def test_a_segment_runs_to_its_end_and_is_not_run_twice(launch: Launch) -> None:
    first = run_segment(launch, cancel_grace_s=GRACE_S)
    second = run_segment(launch, cancel_grace_s=GRACE_S)
    assert (first.reason, first.last_step) == ("completed", 25)
    assert first.cpu_s > 0
    assert (second.reason, second.last_step) == ("completed", 25)
    assert steps(launch) == list(range(1, 26))


def test_a_killed_training_is_reported_and_goes_on_from_its_newest_checkpoint(launch: Launch) -> None:
    dying = dataclasses.replace(launch, overrides={"die_at": 25})
    outcome = run_segment(dying, cancel_grace_s=GRACE_S)
    assert outcome.reason == "died"
    assert "SIGKILL" in outcome.message
    assert outcome.last_step == 25
    assert outcome.remedy
    assert run_segment(launch, cancel_grace_s=GRACE_S).reason == "completed"
    assert steps(launch) == [*range(1, 26), *range(21, 26)]


def test_a_training_that_fails_to_start_names_its_last_words(launch: Launch) -> None:
    Path(launch.project, "recipe.py").write_text("SLOPE = \n")
    outcome = run_segment(launch, cancel_grace_s=GRACE_S)
    assert outcome.reason == "died"
    assert "SyntaxError" in outcome.message


def test_a_stop_request_lets_the_training_finish_in_order(launch: Launch) -> None:
    slow = dataclasses.replace(launch, overrides={"step_s": 0.05}, max_step=10_000)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_segment, slow, cancel_grace_s=GRACE_S)
        until(lambda: is_running(slow.folder, 0) and (segment_folder(slow.folder, 0) / "events.log").exists())
        request_stop(slow)
        outcome = running.result()
    assert outcome.reason == "stopped"
    assert not is_running(slow.folder, 0)
    withdraw_stop(slow)


def test_a_training_that_ignores_the_stop_request_is_killed(launch: Launch) -> None:
    child = Path(launch.project, "trainer", "child.py")
    child.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('up', 'w')\ntime.sleep(600)"
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_segment, launch, cancel_grace_s=0.2)
        until(Path(launch.project, "up").exists)
        request_stop(launch)
        assert running.result().reason == "died"


def test_nothing_is_left_when_the_watcher_is_killed(launch: Launch, tmp_path: Path) -> None:
    slow = dataclasses.replace(launch, overrides={"step_s": 0.05}, max_step=10_000)
    (tmp_path / "launch.json").write_text(slow.to_json())
    code = (
        "import sys; from pathlib import Path; from contracts.backend import Launch;"
        "from control_plane.backends.segment import run_segment;"
        "run_segment(Launch.from_json(Path(sys.argv[1]).read_text()), cancel_grace_s=1)"
    )
    watcher = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "launch.json")])
    until(lambda: (segment_folder(slow.folder, 0) / "events.log").exists())
    (child,) = psutil.Process(watcher.pid).children()
    os.kill(watcher.pid, signal.SIGKILL)
    watcher.wait()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    until(lambda: not is_running(slow.folder, 0))


def test_a_full_disk_is_named_and_nothing_is_lost(launch: Launch) -> None:
    first = run_segment(launch, cancel_grace_s=GRACE_S)
    longer = dataclasses.replace(launch, segment=1, max_step=40)
    draft = segment_folder(longer.folder, 1) / "launch.json.new"
    draft.parent.mkdir()
    draft.symlink_to("/dev/full")
    with pytest.raises(DiskFull, match="no space left") as caught:
        run_segment(longer, cancel_grace_s=GRACE_S)
    assert "nothing stored is lost" in caught.value.remedy
    draft.unlink()
    assert run_segment(longer, cancel_grace_s=GRACE_S).reason == first.reason == "completed"


def test_the_training_gets_no_credentials(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATHE_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    child = Path(launch.project, "trainer", "child.py")
    child.write_text("import os\nopen('environment', 'w').write(repr(dict(os.environ)))")
    run_segment(launch, cancel_grace_s=GRACE_S)
    assert "secret" not in Path(launch.project, "environment").read_text()
