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

from control_plane.backends.segment import clean_environment
from control_plane.disk import explained

_GUARD = Path(__file__).resolve().parents[1] / "backends" / "guard.py"
_MAX_LINE = 300


@dataclass(frozen=True, kw_only=True)
class Checked:
    """How a check ended. `status` as in Popen.returncode; `log` holds what it printed."""

    status: int
    wall_s: float
    timed_out: bool
    log: Path
    log_sha256: str
    last_line: str

    @property
    def how(self) -> str:
        if self.timed_out:
            return f"after {self.wall_s:.0f} s, when its time was up"
        return f"by {signal.Signals(-self.status).name}" if self.status < 0 else f"with status {self.status}"


@dataclass(frozen=True, kw_only=True)
class _Running:
    process: subprocess.Popen[bytes]
    begun_at: float
    log: Path


class Checks:
    """Checks by the key of their effect. One worker's; not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, _Running] = {}

    def run(self, key: str, command: Sequence[str], project: Path, timeout_s: float) -> Checked | None:
        """Start the command unless it runs, and look; None while it runs."""
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = self._start(key, command, project)
        wall_s = time.monotonic() - running.begun_at
        timed_out = wall_s > timeout_s
        if timed_out:
            with suppress(ProcessLookupError):
                os.killpg(running.process.pid, signal.SIGKILL)
            running.process.wait()
        status = running.process.poll()
        if status is None:
            return None
        del self._running[key]
        said = running.log.read_bytes()
        lines = said.decode(errors="replace").strip().splitlines()
        return Checked(
            status=status,
            wall_s=wall_s,
            timed_out=timed_out,
            log=running.log,
            log_sha256=hashlib.sha256(said).hexdigest(),
            last_line=lines[-1][:_MAX_LINE] if lines else "it said nothing",
        )

    def _start(self, key: str, command: Sequence[str], project: Path) -> _Running:
        log = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.log"
        with explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [sys.executable, "-I", str(_GUARD), str(os.getpid()), *command],
                    cwd=project,
                    env=clean_environment(str(project), num_threads=1),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
        return _Running(process=process, begun_at=time.monotonic(), log=log)
