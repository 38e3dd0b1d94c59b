"""Groups that bound the processes, and with version 2 the memory, of a command as a whole, where we may make them.

Version 1: the pids controller, below our own group. Version 2: pids and memory, beside our own group in the nearest
ancestor that hands both on (a group that holds processes cannot), which is how systemd lays them out. Without groups
the limits of each process and the supervisor's watch remain.

Each supervisor has one group for all its commands, and process 1 is born in it: to move a process between groups costs
the kernel many milliseconds. In version 1 it is born there because the supervisor is in it too; in version 2, where the
supervisor's own memory must not count, because the fork says so.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from agents.sandbox.launcher.kernel import write_file

_V2_CONTROLLERS = ("pids", "memory")
_ROOM = 8  # the supervisor, process 1, the forwarder and its connections
_REMOVE_WITHIN_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Parent:
    """A group of ours in which the groups of supervisors are made."""

    path: Path
    version: int

    @property
    def bounds_memory(self) -> bool:
        return self.version == 2

    def open_group(self) -> Group:
        """The calling supervisor's group. Its limits are set for each command."""
        path = self.path / str(os.getpid())
        path.mkdir()
        if self.version == 1:
            (path / "cgroup.procs").write_text(str(os.getpid()))
            return Group(path=path, bounds_memory=False, fork_into=None)
        return Group(path=path, bounds_memory=True, fork_into=os.open(path, os.O_RDONLY | os.O_DIRECTORY))

    def remove_group(self, supervisor: int) -> None:
        """Of a supervisor that has ended."""
        _remove(self.path / str(supervisor))


@dataclass(frozen=True, kw_only=True)
class Group:
    """The group of one supervisor. `fork_into` is its descriptor when process 1 must be forked into it by name."""

    path: Path
    bounds_memory: bool
    fork_into: int | None

    def bound(self, *, processes: int, memory_bytes: int) -> None:
        write_file(f"{self.path}/pids.max", str(processes + _ROOM))
        if self.bounds_memory:
            write_file(f"{self.path}/memory.max", str(memory_bytes))
            with contextlib.suppress(FileNotFoundError):  # no swap accounting on this machine
                write_file(f"{self.path}/memory.swap.max", "0")

    def memory_kills(self) -> int:
        """How many processes of the group the kernel has ended for memory so far."""
        if not self.bounds_memory:
            return 0
        events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
        return int(events["oom_kill"])


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
        return Parent(path=path, version=version)
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
