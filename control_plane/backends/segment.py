"""One segment as a process: start it, watch it, say how it ended. Knows nothing about Ray.

The segment folder holds `launch.json`, `lock` (held while the training or its watcher lives), `stop` (somebody asks it
to stop) and `stdout.txt`, `stderr.txt`. The lock makes a second process for the same segment impossible.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from contracts.backend import Launch, Outcome
from contracts.events import Event, Finished, SegmentStarted, decode, segment_folder
from control_plane.backends.command_registry import is_command
from control_plane.backends.metered import End, Metered
from control_plane.disk import explained

_POLL_S = 0.05
_BACKGROUND_NICENESS = 10  # more than whoever watches it, which is that of a main run
_LEAST_PRIORITY = 19
_TAIL_BYTES = 1 << 16
_MACHINE_FAULT = 3  # exit status of trainer.child
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "TMPDIR", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")


def request_stop(launch: Launch) -> None:
    """Ask whoever runs the segment to stop it; works from any process on this file system."""
    _stop_file(launch).touch()


def withdraw_stop(launch: Launch) -> None:
    """Undo `request_stop`, before the segment is started again."""
    _stop_file(launch).unlink(missing_ok=True)


def is_running(run_folder: Path, segment: int) -> bool:
    """True while a process holds the segment."""
    with suppress(FileNotFoundError), _lock_path(run_folder, segment).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_to_stop(launch: Launch) -> bool:
    """True when somebody asked the segment to stop, since it was submitted last."""
    return _stop_file(launch).exists()


def touch_lock(run_folder: Path, segment: int) -> None:
    """Note that somebody means to run the segment now."""
    _lock_path(run_folder, segment).touch()


def is_abandoned(run_folder: Path, segment: int, before: float) -> bool:
    """True when the segment did not end by itself, nobody holds it, and nothing happened in it since `before`."""
    folder = segment_folder(run_folder, segment)
    times = [path.stat().st_mtime for path in (folder / "lock", folder / "events.log") if path.exists()]
    quiet = max(times, default=0.0) < before
    return quiet and not is_running(run_folder, segment) and finished_event(run_folder, segment) is None


def finished_event(run_folder: Path, segment: int) -> Finished | None:
    """The last event of a segment that ended by itself, else None."""
    event = _last_event(run_folder, segment)
    return event if isinstance(event, Finished) else None


def run_segment(launch: Launch, *, cancel_grace_s: float) -> Outcome:
    """Run the launch to its end, or continue it where a crash or failure left it.

    A segment that completed or was stopped is not run again. A fault of the machine (exit status 3 of the training)
    gives the outcome `died`, because it says nothing about the training.
    """
    started = time.monotonic()
    folder = segment_folder(launch.folder, launch.segment)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _held(launch) as lock:
            done = finished_event(launch.folder, launch.segment)
            if done is not None and done.reason != "failed":
                return _outcome(launch, done.step, done.reason, done.message, done.remedy)
            _write_launch(folder, launch)
            process = _start(launch, folder, lock)
            if launch.background:
                _let_others_first(process.pid)
            end = _watch(process, launch, cancel_grace_s)
            return _read_end(launch, end, wall_s=time.monotonic() - started)


def died(launch: Launch, message: str, remedy: str) -> Outcome:
    """The outcome of a segment whose process or watcher vanished."""
    return _outcome(launch, _last_step(launch), "died", message, remedy)


@contextmanager
def _held(launch: Launch) -> Iterator[IO[bytes]]:
    """Wait for whoever else trains this segment; afterwards its end, or its crash, is there to be read."""
    with _lock_path(launch.folder, launch.segment).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _write_launch(folder: Path, launch: Launch) -> None:
    draft = folder / "launch.json.new"
    draft.write_text(launch.to_json())
    draft.replace(folder / "launch.json")


def _start(launch: Launch, folder: Path, lock: IO[bytes]) -> subprocess.Popen[bytes]:
    """Our trainer in the project's folder; or the child that runs a foreign command, which itself must not see the
    project: a module there could stand in for one of ours."""
    child, where = "trainer.child", launch.project
    environment = dict(clean_environment(launch.project, num_threads=launch.num_threads))
    if is_command(launch.entry):
        child, where = "control_plane.backends.command_child", launch.run_folder
        del environment["PYTHONPATH"]
    guard = str(Path(__file__).with_name("guard.py"))
    command = [sys.executable, "-I", guard, str(os.getpid())]
    command += [sys.executable, "-m", child, str(folder / "launch.json")]
    with (folder / "stdout.txt").open("ab") as out, (folder / "stderr.txt").open("ab") as err:
        return subprocess.Popen(
            command,
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=(lock.fileno(),),  # so that the lock outlives this watcher until the training is gone too
            start_new_session=True,  # Ctrl-C in a terminal reaches Lathe, which then stops the training in order
        )


def _let_others_first(pid: int) -> None:
    """Lower the priority of a session's first process. Where Linux shares the CPUs out by sessions (autogroup, the
    default of most distributions) that of the session is what counts between it and another training."""
    niceness = min(_LEAST_PRIORITY, os.getpriority(os.PRIO_PROCESS, 0) + _BACKGROUND_NICENESS)
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):  # not Linux, or no such groups
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


def clean_environment(project: str, *, num_threads: int) -> Mapping[str, str]:
    """Of a project's processes: no database credentials and model keys; all that decides a result is set here."""
    threads = str(num_threads)
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    fixed = {
        "PYTHONPATH": project,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
    }
    return kept | fixed


def _watch(process: subprocess.Popen[bytes], launch: Launch, cancel_grace_s: float) -> End:
    """Wait for the process. Kills what exceeds its limits, with all that it started."""
    kill_at: float | None = None
    metered = Metered(process, cpu_limit_s=launch.cpu_limit_s, note=launch.spent_note)
    while (end := metered.poll()) is None:
        if kill_at is None and _stop_file(launch).exists():
            process.send_signal(signal.SIGTERM)
            kill_at = time.monotonic() + cancel_grace_s
        elif kill_at is not None and time.monotonic() > kill_at:
            metered.kill()
        time.sleep(_POLL_S)
    return end


def _read_end(launch: Launch, end: End, *, wall_s: float) -> Outcome:
    status, cpu_s = end.status, end.cpu_s
    if done := finished_event(launch.folder, launch.segment):
        reason = "died" if status == _MACHINE_FAULT else done.reason
        return _outcome(launch, done.step, reason, done.message, done.remedy, cpu_s=cpu_s, wall_s=wall_s)
    if launch.cpu_limit_s is not None and (end.over_limit or cpu_s > launch.cpu_limit_s):
        return _outcome(
            launch,
            _last_step(launch),
            "over_budget",
            f"run {launch.run_id} was ended after {cpu_s:.1f} CPU s; {launch.cpu_limit_s:.1f} were reserved for it",
            "ask for it again with a larger budget",
            cpu_s=cpu_s,
            wall_s=wall_s,
        )
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    folder = segment_folder(launch.folder, launch.segment)
    said = (folder / "stderr.txt").read_text(errors="replace").strip().splitlines()[-1:]
    return _outcome(
        launch,
        _last_step(launch),
        "died",
        f"the training process of run {launch.run_id} ended {how}" + (f": {said[0]}" if said and status > 0 else ""),
        f"read {folder / 'stderr.txt'}; starting it again goes on from its newest checkpoint",
        cpu_s=cpu_s,
        wall_s=wall_s,
    )


def _outcome(
    launch: Launch, step: int, reason: str, message: str, remedy: str, *, cpu_s: float = 0.0, wall_s: float = 0.0
) -> Outcome:
    return Outcome(
        run_id=launch.run_id,
        segment=launch.segment,
        last_step=step,
        reason=reason,
        message=message,
        remedy=remedy,
        cpu_s=cpu_s,
        wall_s=wall_s,
    )


def _last_step(launch: Launch) -> int:
    event = _last_event(launch.folder, launch.segment)
    if event is None:
        return 0
    return event.start_step if isinstance(event, SegmentStarted) else event.step


def _last_event(run_folder: Path, segment: int) -> Event | None:
    """The last complete event, read from the end of the file."""
    path = segment_folder(run_folder, segment) / "events.log"
    if not path.exists():
        return None
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        size = _TAIL_BYTES
        while True:
            file.seek(max(0, end - size))
            lines = file.read(size).split(b"\n")[:-1]  # what follows the last newline is torn
            if len(lines) > 1 or size >= end:
                break
            size *= 2
    return decode(lines[-1], where=f"the end of {path}") if lines else None


def _stop_file(launch: Launch) -> Path:
    return segment_folder(launch.folder, launch.segment) / "stop"


def _lock_path(run_folder: Path, segment: int) -> Path:
    return segment_folder(run_folder, segment) / "lock"
