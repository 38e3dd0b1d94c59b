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
from collections.abc import Iterator
from pathlib import Path

from agents.sandbox.launcher.rootfs import MOST_TCP_BUFFER_BYTES
from agents.sandbox.protocol import MAX_DEPTH

_WALKABLE_BYTES = 64 << 20  # of page tables: to walk through more takes the kernel too long
_MOST_MAPPINGS = 65530  # the kernel's default for one process
_MAPPING_BYTES = 384  # what the kernel notes about one mapping that a fork has copied


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Uncountable(Exception):
    """A folder nested too deep, closed to its own owner or with too many files: its contents were not counted."""


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
    """The most that the buffers of all sockets of the sandbox can hold: it cannot ask for others than these."""
    most = max(sum(_setting(f"net/core/{name}_default") for name in ("rmem", "wmem")), 2 * MOST_TCP_BUFFER_BYTES)
    with contextlib.suppress(OSError, ValueError):  # process 1 has just ended
        words = _read(proc, "1/net/sockstat").split()
        return int(words[words.index("used") + 1]) * most
    return 0


def _setting(name: str) -> int:
    return int(Path(f"/proc/sys/{name}").read_text())


def available_bytes() -> int:
    """Memory of the machine that programs could still take."""
    with open("/proc/meminfo") as file:
        return _sum_kib(file.read(), ("MemAvailable:",))


def note_written(proc: int, written: dict[str, int]) -> None:
    """Notes for each process how many bytes it has sent to disks, with its children that it has waited for."""
    for pid in processes(proc):
        with contextlib.suppress(OSError, ValueError):
            text = _read(proc, f"{pid}/io")
            found = int(text.partition("\nwrite_bytes:")[2].split("\n")[0])
            written[pid] = max(found, written.get(pid, 0))


def resident_bytes(proc: int, *, shared_once: bool) -> int:
    """Memory of all processes, with what the kernel needs to map it.

    Counting pages that processes share only once, and mappings one by one, is exact and slow; otherwise the result is
    too much.
    """
    total = 0
    for pid in processes(proc):
        with contextlib.suppress(OSError, ValueError):
            text = _read(proc, f"{pid}/status")
            tables = _sum_kib(text, ("VmPTE:",))
            total += tables + _sum_kib(text, ("HugetlbPages:",))
            if shared_once and tables < _WALKABLE_BYTES:
                total += _read(proc, f"{pid}/maps").count("\n") * _MAPPING_BYTES
                total += _sum_kib(_read(proc, f"{pid}/smaps_rollup"), ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
            else:
                total += min(_sum_kib(text, ("VmSize:",)) >> 12, _MOST_MAPPINGS) * _MAPPING_BYTES
                total += _sum_kib(text, ("RssAnon:", "RssShmem:", "VmSwap:"))
    return total


def _sum_kib(text: str, names: tuple[str, ...]) -> int:
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) << 10 for row in rows if row and row[0] in names)


def _read(proc: int, name: str) -> str:
    with open(os.open(name, os.O_RDONLY, dir_fd=proc), errors="replace") as file:
        return file.read()


def folder_bytes(path: str, *, most_files: int) -> int:
    """On disk, below a folder that its owner may change meanwhile. No link is followed. Raises Uncountable."""
    blocks = files = 0
    try:
        for found in _walk(os.open(path, _FOLDER), 0, set()):
            blocks, files = blocks + found, files + 1
            if files > most_files:
                raise Uncountable
    except PermissionError as error:
        raise Uncountable from error
    return blocks * 512


def _walk(folder: int, depth: int, linked: set[int]) -> Iterator[int]:
    """The blocks of everything below a folder; those of a file with several names only once. Closes `folder`."""
    try:
        if depth > MAX_DEPTH:
            raise Uncountable
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    status = entry.stat(follow_symlinks=False)
                    is_folder = stat.S_ISDIR(status.st_mode)
                    yield status.st_blocks if is_folder or status.st_ino not in linked else 0
                    if status.st_nlink > 1:
                        linked.add(status.st_ino)
                    if is_folder:
                        yield from _walk(os.open(entry.name, _FOLDER, dir_fd=folder), depth + 1, linked)
    finally:
        os.close(folder)
