"""Groups that bound the processes, and with version 2 the memory, of one command as a whole, where we may make them.

Version 1: the pids controller, below our own group. Version 2: pids and memory, beside our own group in the nearest
ancestor that hands both on (a group that holds processes cannot), which is how systemd lays them out. Without groups
the limits of each process and the supervisor's watch remain.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

_V2_CONTROLLERS = ("pids", "memory")
_ROOM = 8  # process 1, the forwarder and its connections
_REMOVE_WITHIN_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Parent:
    """A group of ours in which the groups of single commands are made."""

    path: Path
    bounds_memory: bool


@dataclass(frozen=True, kw_only=True)
class Group:
    """The group of one command."""

    path: Path
    bounds_memory: bool

    @classmethod
    def make(cls, parent: Parent, name: str, *, processes: int, memory_bytes: int) -> Group:
        group = cls(path=parent.path / name, bounds_memory=parent.bounds_memory)
        group.path.mkdir()
        (group.path / "pids.max").write_text(str(processes + _ROOM))
        if group.bounds_memory:
            (group.path / "memory.max").write_text(str(memory_bytes))
            with contextlib.suppress(FileNotFoundError):  # no swap accounting on this machine
                (group.path / "memory.swap.max").write_text("0")
        return group

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def ran_out_of_memory(self) -> bool:
        if not self.bounds_memory:
            return False
        events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
        return events["oom_kill"] != "0"

    def peak_memory_bytes(self) -> int | None:
        if not self.bounds_memory:
            return None
        try:
            return int((self.path / "memory.peak").read_text())
        except FileNotFoundError:  # newer than version 2 itself
            return None

    def remove(self) -> None:
        _remove(self.path)


def open_parent(name: str) -> Parent | None:
    """Makes our group, or finds it already there; None when the machine does not let us."""
    for version, place in _places():
        path = place / name
        try:
            path.mkdir(exist_ok=True)
            if version == 2:
                (path / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _V2_CONTROLLERS))
        except OSError:
            continue
        return Parent(path=path, bounds_memory=version == 2)
    return None


def remove_parent(name: str) -> None:
    """Removes our group with those inside it, for instance after the process that made it was killed."""
    for _, place in _places():
        path = place / name
        if path.is_dir():
            for child in path.iterdir():
                if child.is_dir():
                    _remove(child)
            _remove(path)


def _remove(path: Path) -> None:
    """Removes one group; the kernel may still be ending its last process."""
    until = time.monotonic() + _REMOVE_WITHIN_S
    while time.monotonic() < until:
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.001)
        else:
            return


def _places() -> list[tuple[int, Path]]:
    """(version, folder) where a group of ours could be made, best first."""
    own = _own_groups()
    places: list[tuple[int, Path]] = []
    for point, kind, options in _mounts():
        if kind == "cgroup2" and "" in own:
            folder = point / own[""].lstrip("/")
            above = [f for f in (folder, *folder.parents) if f.is_relative_to(point) and _hands_on(f)]
            places = [(2, f) for f in above[:1]] + places
        elif kind == "cgroup" and "pids" in options and "pids" in own:
            places.append((1, point / own["pids"].lstrip("/")))
    return [(version, folder) for version, folder in places if os.access(folder, os.W_OK)]


def _hands_on(folder: Path) -> bool:
    handed = (folder / "cgroup.subtree_control").read_text().split()
    return all(name in handed for name in _V2_CONTROLLERS)


def _own_groups() -> dict[str, str]:
    """Controller -> the path of our group; the empty name stands for version 2."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    return own


def _mounts() -> list[tuple[Path, str, list[str]]]:
    rows = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [(Path(row[1]), row[2], row[3].split(",")) for row in rows]
