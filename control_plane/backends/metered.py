"""Processes whose CPU and wall seconds are counted, limited and noted in a file that outlives whoever counts.

The note is brought up to date twice a second, so a SIGKILL of the counter loses at most half a second of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

_LOOK_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Spent:
    """By all processes that were started under one name."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SpentNotes:
    """One note for each key, for instance an effect's."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / hashlib.sha256(key.encode()).hexdigest()[:32]

    def read(self, key: str) -> Spent:
        """Zeros when nothing was noted."""
        return _read(self.path(key))

    def forget(self, key: str) -> None:
        """Once it is booked elsewhere."""
        self.path(key).unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class End:
    """Of a process. `status`: as in Popen.returncode. `over_limit`: it was killed for the CPU that it used."""

    status: int
    cpu_s: float
    over_limit: bool


class Metered:
    """A running process, polled by whoever waits for it. `note` "": nothing is noted."""

    def __init__(self, process: subprocess.Popen[bytes], *, cpu_limit_s: float | None, note: str) -> None:
        self._process = process
        self._limit_s = float("inf") if cpu_limit_s is None else cpu_limit_s
        self._note = Path(note) if note else None
        self._before = _read(self._note) if self._note else Spent()
        self._begun_at = time.monotonic()
        self._look_at = 0.0
        self._seen_s = 0.0

    def poll(self) -> End | None:
        """How it ended, once; None while it runs. Kills it, with all that it started, beyond its limit."""
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid:
            self._process.returncode = os.waitstatus_to_exitcode(status)
            over_limit = self._seen_s > self._limit_s
            self._seen_s = max(self._seen_s, usage.ru_utime + usage.ru_stime)  # the latter lacks what nobody waited for
            self._write()
            return End(status=self._process.returncode, cpu_s=self._seen_s, over_limit=over_limit)
        if time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            self._seen_s = max(self._seen_s, _cpu_s(self._process.pid))
            self._write()
            if self._seen_s > self._limit_s:
                self.kill()
        return None

    def kill(self) -> None:
        """The process and what it started, which may have sessions of its own."""
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self._process.pid)
            for process in (parent, *parent.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _write(self) -> None:
        if self._note is None:
            return
        wall_s = time.monotonic() - self._begun_at
        spent = Spent(cpu_s=self._before.cpu_s + self._seen_s, wall_s=self._before.wall_s + wall_s)
        self._note.parent.mkdir(parents=True, exist_ok=True)
        draft = self._note.with_suffix(".new")
        draft.write_text(json.dumps(asdict(spent)))
        draft.replace(self._note)


def _read(path: Path) -> Spent:
    try:
        return Spent(**json.loads(path.read_text()))
    except FileNotFoundError:
        return Spent()


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process and of what it started, as far as it still runs or was waited for."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used = process.cpu_times()
                total += used.user + used.system + used.children_user + used.children_system
    return total
