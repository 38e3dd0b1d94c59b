"""Is the Postgres of a data folder alive, and if not, what did it leave behind?

`postmaster.pid` alone does not tell: after kill -9 it stays, and its number may by now be another process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, kw_only=True)
class Postmaster:
    pid: int
    socket_folder: Path


def find(data: Path) -> Postmaster | None:
    """The live postmaster of this data folder, or None."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < 5 or not lines[0].isdigit() or not lines[4]:
        return None
    pid = int(lines[0])
    if pid not in {process.pid for process in _candidates([pid], data)}:
        return None
    return Postmaster(pid=pid, socket_folder=Path(lines[4].strip()))


def clear_stale(data: Path, socket_folder: Path) -> None:
    """Remove what a killed server left. Only call when `find` says None and nobody else may start one.

    Backends that outlived their postmaster are ended first: two servers on one folder would destroy it.
    """
    orphans = list(_candidates(psutil.pids(), data))
    for orphan in orphans:
        _end(orphan)
    _, alive = psutil.wait_procs(orphans, timeout=5)
    for orphan in alive:
        orphan.kill()
    psutil.wait_procs(alive, timeout=5)
    for path in (data / "postmaster.pid", *socket_folder.glob(".s.PGSQL.*")):
        path.unlink(missing_ok=True)


def _end(process: psutil.Process) -> None:
    try:
        process.terminate()
    except psutil.NoSuchProcess:
        return


def _candidates(pids: list[int], data: Path) -> Iterator[psutil.Process]:
    """Server processes of this data folder. Every one of them has it as its working directory."""
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.name() == "postgres" and process.cwd() == str(data):
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
