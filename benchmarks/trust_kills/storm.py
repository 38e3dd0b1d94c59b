"""The supervisor of all processes, which also kills them, and the watch on how long each takes to go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from benchmarks.place import Place
from benchmarks.trust_kills.jobs import Desk, Wave, patiently
from context_store import postmaster
from contracts.errors import DatabaseUnavailable

ROLES = ("api", "worker", "shipper", "graph", "dual")
VICTIMS = (*ROLES, "postgres")
_KEEPERS = 8  # one kill in so many hits the parent that only waits
_FIRST_START_S = 240.0  # nothing is measured yet, and everything is imported at once
_STUCK_S = 60.0  # longer than this nothing is waited for: it is lost
_WORKER_LOCKS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
_IN_HAND = "SELECT key FROM effect WHERE state = 'running' AND worker LIKE %s"


@dataclass
class Crew:
    """Every process by its role; whoever ended is started again, as a supervisor of services does."""

    place: Place
    experiments: list[str]
    marks: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def keep(self) -> None:
        """Start whoever does not run."""
        for role in ROLES:
            process = self.running.get(role)
            if process is None or process.poll() is not None:
                self.running[role] = self._start(role)

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        if role == "api":
            return self.place.start_api()
        if role == "worker":
            return self.place.start_worker()
        more = [str(self.marks), *self.experiments] if role == "dual" else []
        return self.place.python(role, "-m", "benchmarks.trust_kills.roles", role, str(self.ready(role)), *more)

    def ready(self, role: str) -> Path:
        return self.place.home / f"{role}.ready"

    def at_work(self, role: str) -> bool:
        """Has the present process of this role done a round of its work?"""
        process = self.running.get(role)
        if process is None or process.poll() is not None:
            return False
        if role == "api":
            return self.place.answers()
        pid = doer(process)
        if role == "worker":
            return self._worker_announced(pid)
        ready = self.ready(role)
        return ready.exists() and ready.read_text() == str(pid)

    def all_at_work(self) -> bool:
        return all(self.at_work(role) for role in ROLES)

    def _worker_announced(self, pid: int) -> bool:
        """Its file of presence is there and, unlike the file, its lock in the database ends with the database."""
        folder = self.place.settings.workers_folder
        if not any(path.name.endswith(f"{pid}.alive") for path in folder.glob("*.alive")):
            return False
        with suppress(psycopg.Error), psycopg.connect(self.place.url, connect_timeout=5) as connection:
            return connection.execute(_WORKER_LOCKS).fetchone() is not None
        return False

    def in_hand(self, pid: int) -> set[str]:
        """Effects that a worker holds."""
        with psycopg.connect(self.place.url, connect_timeout=5) as connection:
            return {row[0] for row in connection.execute(_IN_HAND, [f"%:{pid}"])}

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@contextmanager
def crew(place: Place, waves: list[Wave]) -> Iterator[Crew]:
    """All processes, at work."""
    found = Crew(place, [wave.experiment_id for wave in waves], place.home / "marks.txt")
    try:
        wait(found, found.all_at_work, _FIRST_START_S)
        yield found
    finally:
        found.stop()


def wait(found: Crew, condition: object, limit_s: float = _STUCK_S) -> float:
    """Seconds until it holds. Raises TimeoutError."""
    begin = time.monotonic()
    while not condition():  # type: ignore[operator]
        found.keep()
        if time.monotonic() - begin > limit_s:
            raise TimeoutError(f"nothing goes on after {limit_s:g} s: see {found.place.home / 'logs'}")
        time.sleep(0.02)
    return time.monotonic() - begin


def doer(process: subprocess.Popen[bytes]) -> int:
    """The process that does the work: the child of its keeper; 0 while there is none."""
    with suppress(psutil.NoSuchProcess):
        return next((child.pid for child in psutil.Process(process.pid).children()), 0)
    return 0


def kill(found: Crew, victim: str, rng: random.Random) -> tuple[str, float]:
    """SIGKILL it; who it was, and the seconds until it is at its work again and what it had in hand goes on.

    Mostly the process that does the work; one time in `_KEEPERS` its keeper, which takes it along and is started anew.
    """
    if victim == "postgres":
        return victim, _kill_postgres(found, rng)
    process, begin = found.running[victim], time.monotonic()
    pid = doer(process)
    if pid and rng.randrange(_KEEPERS):
        os.kill(pid, signal.SIGKILL)
        wait(found, lambda: doer(process) != pid)
    else:
        victim = f"{victim}'s keeper"
        process.kill()
        process.wait()
    role = victim.partition("'")[0]
    held = found.in_hand(pid) if role == "worker" else set()
    found.keep()
    wait(found, lambda: found.at_work(role) and not (held and held & found.in_hand(pid)))
    return victim, time.monotonic() - begin


def _kill_postgres(found: Crew, rng: random.Random) -> float:
    """The postmaster with all its children, or one child, after which it starts all of them anew."""
    server = postmaster.find(found.place.server.folder / "data")
    assert server is not None
    children = psutil.Process(server.pid).children()
    whole = rng.random() < 0.7 or not children
    with suppress(ProcessLookupError):
        os.kill(server.pid if whole else rng.choice(children).pid, signal.SIGKILL)
    begin = time.monotonic()
    found.place.server.start()
    wait(found, found.all_at_work)
    return time.monotonic() - begin


@dataclass
class Storm:
    """Kills while the desk is worked at. `resumes`: seconds by victim."""

    crew: Crew
    desk: Desk
    waves: list[Wave]
    rng: random.Random
    resumes: list[tuple[str, float]] = field(default_factory=list)

    def run(self, kills: int, longest_pause_s: float = 1.5) -> None:
        for _ in range(kills):
            self._work(self.rng.uniform(0.1, longest_pause_s))
            victim = self.rng.choice(VICTIMS)
            self.resumes.append(kill(self.crew, victim, self.rng))

    def calm(self, limit_s: float) -> list[Wave]:
        """Let everything come to its end; returns what did not."""
        deadline = time.monotonic() + limit_s
        while open_waves := [wave for wave in self.waves if not patiently(wave, self.desk)]:
            self._review()
            if time.monotonic() > deadline:
                return open_waves
            time.sleep(0.1)
        return []

    def _work(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for wave in self.waves:
                patiently(wave, self.desk)
            self._review()
            time.sleep(0.05)

    def _review(self) -> None:
        with suppress(DatabaseUnavailable):
            self.crew.keep()
            self.desk.person.review()
