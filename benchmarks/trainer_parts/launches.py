"""What a user waits for: `lathe train` until its first step, and one counterfactual re-run of the demo's size."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from contracts.backend import Launch
from contracts.events import segment_folder

_PROJECT = Path(__file__).parents[2] / "control_plane" / "demo" / "project"
_START, _END = 100, 180  # of a re-run: from the checkpoint before the fault to where its effect shows
_LIMIT_S = 120.0


def rerun_s(folder: Path) -> float:
    """Wall time of one re-run of the demo's project, from a checkpoint and with its child process."""
    project = _copied(folder / "project")
    _run(_launch(folder / "first", project, max_step=_START))
    checkpoint = folder / "first" / "checkpoints" / f"step-{_START:06d}"
    started = time.perf_counter()
    _run(_launch(folder / "rerun", project, max_step=_END, start_checkpoint=str(checkpoint)))
    return time.perf_counter() - started


def cold_start_s(folder: Path) -> float:
    """From `lathe train PROJECT` in an empty home to the first step in the run's log, all processes included."""
    project = _copied(folder / "project")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    home = folder / "home"
    environment = os.environ | {"LATHE_HOME": str(home), "PYTHONPATH": str(_PROJECT.parents[2])}
    command = [sys.executable, "-m", "control_plane.cli.main", "train", str(project)]
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return _first_step(home, process, started)
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        subprocess.run([*command[:3], "down"], env=environment, check=False, capture_output=True)


def _first_step(home: Path, process: subprocess.Popen[bytes], started: float) -> float:
    while time.perf_counter() - started < _LIMIT_S and process.poll() is None:
        logs = [*home.glob("**/events.log")]
        if logs and b'"data_position"' in logs[0].read_bytes():
            return time.perf_counter() - started
        time.sleep(0.02)
    raise AssertionError(f"no first step within {_LIMIT_S:.0f} s, exit status {process.poll()}")


def _copied(project: Path) -> Path:
    project.mkdir(parents=True)
    for path in _PROJECT.glob("*.py"):
        (project / path.name).write_text(path.read_text())
    return project


def _launch(run_folder: Path, project: Path, *, max_step: int, start_checkpoint: str = "") -> Path:
    launch = Launch(
        run_id=run_folder.name,
        segment=0,
        run_folder=str(run_folder),
        project=str(project),
        code_version="",
        max_step=max_step,
        start_checkpoint=start_checkpoint,
    )
    run_folder.mkdir(parents=True)
    segment_folder(run_folder, 0).mkdir(parents=True, exist_ok=True)
    path = run_folder / "launch.json"
    path.write_text(launch.to_json())
    return path


def _run(launch: Path) -> None:
    project = Launch.from_json(launch.read_text()).project
    subprocess.run(
        [sys.executable, "-m", "trainer.child", str(launch)],
        cwd=project,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([project, str(_PROJECT.parents[2])])},
        check=True,
        stdout=subprocess.DEVNULL,
    )
