"""What a running command holds of memory and disk, measured from outside.

Everything is read through a descriptor of the sandbox's own /proc, which lists its processes and no others. Processes
come and go while we read; what has gone holds nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from agents.sandbox.protocol import MAX_DEPTH

_SOCKET_BYTES = 416 << 10  # two buffers of the kernel's default maximum
_PIPE_BYTES = 64 << 10


class Uncountable(Exception):
    """A folder nested deeper than MAX_DEPTH or closed to its own owner: its contents could not be counted."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    size_bytes: int
    files: int


@dataclass(kw_only=True)
class Open:
    """What the processes hold open: unlinked files by size, sockets and pipes by number."""

    seen: set[tuple[int, int]] = field(default_factory=set)
    unlinked_bytes: int = 0
    buffer_bytes: int = 0

    def add(self, status: os.stat_result) -> None:
        key = (status.st_dev, status.st_ino)
        if key in self.seen:
            return
        self.seen.add(key)
        if stat.S_ISSOCK(status.st_mode):
            self.buffer_bytes += _SOCKET_BYTES
        elif stat.S_ISFIFO(status.st_mode):
            self.buffer_bytes += _PIPE_BYTES
        elif stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
            self.unlinked_bytes += status.st_blocks * 512


def processes(proc: int) -> list[str]:
    return [name for name in os.listdir(proc) if name.isdigit()]


def open_files(proc: int) -> Open:
    """Of every thread: threads of one process may have descriptors of their own."""
    found = Open()
    for pid in processes(proc):
        with contextlib.suppress(OSError):
            for thread in _names(f"{pid}/task", proc):
                _add_open(found, f"{pid}/task/{thread}/fd", proc)
    return found


def _names(folder: str, proc: int) -> list[str]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY, dir_fd=proc)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _add_open(found: Open, path: str, proc: int) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=proc)
    try:
        for status in _stats(folder):
            found.add(status)
    finally:
        os.close(folder)


def note_written(proc: int, written: dict[str, int]) -> None:
    """Notes for each process how many bytes it has sent to disks, with its children that it has waited for."""
    for pid in processes(proc):
        with contextlib.suppress(OSError, ValueError):
            text = _read(proc, f"{pid}/io")
            found = int(text.partition("\nwrite_bytes:")[2].split("\n")[0])
            written[pid] = max(found, written.get(pid, 0))


def _stats(folder: int) -> Iterator[os.stat_result]:
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            yield os.stat(name, dir_fd=folder)


def resident_bytes(proc: int, *, shared_once: bool) -> int:
    """Memory of all processes. Counting pages that a fork shares only once is exact and slow; otherwise too much."""
    read = _proportional if shared_once else _resident
    total = 0
    for pid in processes(proc):
        with contextlib.suppress(OSError, ValueError):
            total += read(proc, pid)
    return total


def _resident(proc: int, pid: str) -> int:
    return _sum_kib(_read(proc, f"{pid}/status"), ("RssAnon:", "RssShmem:", "VmPTE:"))


def _proportional(proc: int, pid: str) -> int:
    tables = _sum_kib(_read(proc, f"{pid}/status"), ("VmPTE:",))
    return tables + _sum_kib(_read(proc, f"{pid}/smaps_rollup"), ("Pss_Anon:", "Pss_Shmem:"))


def _sum_kib(text: str, names: tuple[str, ...]) -> int:
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) << 10 for row in rows if row and row[0] in names)


def _read(proc: int, name: str) -> str:
    descriptor = os.open(name, os.O_RDONLY, dir_fd=proc)
    try:
        return os.read(descriptor, 1 << 16).decode()
    finally:
        os.close(descriptor)


def folder_usage(path: str) -> Usage:
    """Blocks and files below a folder that its owner may change meanwhile. No link is followed. Raises Uncountable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        blocks, files = _walk(descriptor, 0, set())
    finally:
        os.close(descriptor)
    return Usage(size_bytes=blocks * 512, files=files)


def _walk(folder: int, depth: int, linked: set[int]) -> tuple[int, int]:
    if depth > MAX_DEPTH:
        raise Uncountable
    blocks = files = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = entry.stat(follow_symlinks=False)
                files += 1
                if status.st_nlink == 1 or status.st_ino not in linked or entry.is_dir(follow_symlinks=False):
                    blocks += status.st_blocks
                linked.add(status.st_ino)
                if entry.is_dir(follow_symlinks=False):
                    below = _below(folder, entry.name, depth, linked)
                    blocks, files = blocks + below[0], files + below[1]
    return blocks, files


def _below(folder: int, name: str, depth: int, linked: set[int]) -> tuple[int, int]:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except PermissionError as error:
        raise Uncountable from error
    try:
        return _walk(descriptor, depth + 1, linked)
    finally:
        os.close(descriptor)
