"""Runs a launch whoever trains it: our trainer, or the command that its entry names. Same lock, stop and outcome."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from contracts.backend import Launch, Outcome
from contracts.events import segment_folder
from control_plane.backends import segment
from control_plane.backends.command_registry import is_command
from control_plane.disk import explained

_GUARD = str(Path(__file__).with_name("guard.py"))


def run_launch(launch: Launch, *, cancel_grace_s: float) -> Outcome:
    """As `segment.run_segment`, with the program that belongs to the launch's entry."""
    if not is_command(launch.entry):
        return segment.run_segment(launch, cancel_grace_s=cancel_grace_s)
    started = time.monotonic()
    folder = segment_folder(launch.folder, launch.segment)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with segment._held(launch) as lock:
            done = segment.finished_event(launch.folder, launch.segment)
            if done is not None and done.reason != "failed":
                return segment._outcome(launch, done.step, done.reason, done.message, done.remedy)
            segment._write_launch(folder, launch)
            status, cpu_s = segment._watch(_start(launch, folder, lock), launch, cancel_grace_s)
            return segment._read_end(launch, status, cpu_s=cpu_s, wall_s=time.monotonic() - started)


def _start(launch: Launch, folder: Path, lock: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", _GUARD, str(os.getpid())]
    command += [sys.executable, "-m", "control_plane.backends.command_child", str(folder / "launch.json")]
    with (folder / "stdout.txt").open("ab") as out, (folder / "stderr.txt").open("ab") as err:
        return subprocess.Popen(
            command,
            cwd=launch.folder,
            env={name: value for name, value in segment._environment(launch).items() if name != "PYTHONPATH"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=(lock.fileno(),),
            start_new_session=True,
        )
