"""What a running command holds of memory and disk, measured from outside.

Everything is read through a descriptor of the sandbox's own /proc, which lists its processes and no others. Processes
come and go while we read; what has gone holds nothing. Reading is not free for the kernel: each name looked up in /proc
is one more to forget when its process ends, which delays the end of many threads. So descriptors are listed only when
the disk says that it matters.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass

from agents.sandbox.protocol import MAX_DEPTH

_WALKABLE_BYTES = 64 << 20  # of page tables: to walk through more takes the kernel too long
_SOCKET_BYTES = 416 << 10  # two buffers of the kernel's default maximum


class Uncountable(Exception):
    """A folder nested deeper than MAX_DEPTH or closed to its own owner: its contents could not be counted."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    size_bytes: int
    files: int


def processes(proc: int) -> list[str]:
    return [name for name in os.listdir(proc) if name.isdigit()]


def unlinked_bytes(proc: int) -> int:
    """Of deleted files that any thread has open (threads of one process may have descriptors of their own)."""
    found: dict[tuple[int, int], int] = {}
    for pid in processes(proc):
        with contextlib.suppress(OSError):
            for thread in _names(f"{pid}/task", proc):
                _note_unlinked(f"{pid}/task/{thread}/fd", proc, found)
    return sum(found.values())


def _names(folder: str, proc: int) -> list[str]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY, dir_fd=proc)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _note_unlinked(path: str, proc: int, found: dict[tuple[int, int], int]) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=proc)
    try:
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=folder)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                    found[status.st_dev, status.st_ino] = status.st_blocks * 512
    finally:
        os.close(folder)


def socket_bytes(proc: int) -> int:
    """The most that the buffers of all sockets of the sandbox can hold."""
    words = _read(proc, "1/net/sockstat").split()
    return int(words[words.index("used") + 1]) * _SOCKET_BYTES


def note_written(proc: int, written: dict[str, int]) -> None:
    """Notes for each process how many bytes it has sent to disks, with its children that it has waited for."""
    for pid in processes(proc):
        with contextlib.suppress(OSError, ValueError):
            text = _read(proc, f"{pid}/io")
            found = int(text.partition("\nwrite_bytes:")[2].split("\n")[0])
            written[pid] = max(found, written.get(pid, 0))


def resident_bytes(proc: int, *, shared_once: bool) -> int:
    """Memory of all processes. Counting pages that a fork shares only once is exact and slow; otherwise too much."""
    total = 0
    for pid in processes(proc):
        with contextlib.suppress(OSError, ValueError):
            text = _read(proc, f"{pid}/status")
            tables = _sum_kib(text, ("VmPTE:",))
            if shared_once and tables < _WALKABLE_BYTES:
                total += tables + _sum_kib(_read(proc, f"{pid}/smaps_rollup"), ("Pss_Anon:", "Pss_Shmem:"))
            else:
                total += tables + _sum_kib(text, ("RssAnon:", "RssShmem:"))
    return total


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
