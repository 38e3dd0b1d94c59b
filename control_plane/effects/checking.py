"""Commands that check a change before it lands: processes of their own that the executor does not wait for.

They get what a training gets: no credentials, the project as working directory and PYTHONPATH. They die with
the worker.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from control_plane.backends.metered import Metered, SpentNotes
from control_plane.backends.segment import clean_environment
from control_plane.disk import explained

_GUARD = Path(__file__).resolve().parents[1] / "backends" / "guard.py"
_MAX_LINE = 300


@dataclass(frozen=True, kw_only=True)
class Checked:
    """How a check ended. `status` as in Popen.returncode; `log` holds what it printed."""

    status: int
    wall_s: float
    cpu_s: float
    timed_out: bool
    over_cpu: bool
    log: Path
    log_sha256: str
    last_line: str

    @property
    def how(self) -> str:
        if self.timed_out:
            return f"after {self.wall_s:.0f} s, when its time was up"
        if self.over_cpu:
            return f"after {self.cpu_s:.1f} CPU s, more than it may use"
        return f"by {signal.Signals(-self.status).name}" if self.status < 0 else f"with status {self.status}"


@dataclass(frozen=True, kw_only=True)
class Check:
    """A command in a project, and how long it may take."""

    command: Sequence[str]
    project: Path
    timeout_s: float
    cpu_limit_s: float


@dataclass(frozen=True, kw_only=True)
class _Running:
    process: subprocess.Popen[bytes]
    metered: Metered
    begun_at: float
    log: Path


class Checks:
    """Checks by the key of their effect. One worker's; not thread-safe."""

    def __init__(self, folder: Path, spent: SpentNotes) -> None:
        self._folder = folder
        self._spent = spent
        self._running: dict[str, _Running] = {}

    def run(self, key: str, check: Check) -> Checked | None:
        """Start the command unless it runs, and look; None while it runs."""
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = self._start(key, check)
        wall_s = time.monotonic() - running.begun_at
        timed_out = wall_s > check.timeout_s
        if timed_out:
            running.metered.kill()
            with suppress(ProcessLookupError):
                os.killpg(running.process.pid, signal.SIGKILL)
        if (end := running.metered.poll()) is None:
            return None
        del self._running[key]
        said = running.log.read_bytes()
        lines = said.decode(errors="replace").strip().splitlines()
        return Checked(
            status=end.status,
            wall_s=wall_s,
            cpu_s=end.cpu_s,
            timed_out=timed_out,
            over_cpu=end.over_limit,
            log=running.log,
            log_sha256=hashlib.sha256(said).hexdigest(),
            last_line=lines[-1][:_MAX_LINE] if lines else "it said nothing",
        )

    def _start(self, key: str, check: Check) -> _Running:
        log = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.log"
        with explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [sys.executable, "-I", str(_GUARD), str(os.getpid()), *check.command],
                    cwd=check.project,
                    env=clean_environment(str(check.project), num_threads=1),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
        left_s = check.cpu_limit_s - self._spent.read(key).cpu_s
        metered = Metered(process, cpu_limit_s=max(0.0, left_s), note=str(self._spent.path(key)))
        return _Running(process=process, metered=metered, begun_at=time.monotonic(), log=log)
