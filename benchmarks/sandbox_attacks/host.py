"""What of the host an attack could change, and what its processes use: read by the judge."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PERIOD_S = 0.02
_READS_AT_A_TIME = 4
_SYSCTLS = (
    "kernel/core_pattern", "kernel/domainname", "kernel/hostname", "kernel/modprobe", "kernel/msgmni",
    "kernel/threads-max", "net/ipv4/ip_forward", "vm/overcommit_memory", "vm/drop_caches",
)  # fmt: skip


def host_state() -> dict[str, str]:
    """Settings and tables of the host that nothing in a sandbox may change."""
    state = {name: _read(Path("/proc/sys") / name) for name in _SYSCTLS}
    state["host name"] = socket.gethostname()
    state["mounts"] = _read(Path("/proc/self/mountinfo"))
    state["network devices"] = " ".join(name for _, name in socket.if_nameindex())
    state["routes"] = _read(Path("/proc/net/route"))
    for path in ("/etc/passwd", "/etc/ld.so.preload", "/etc/crontab", "/usr/local/bin", "/usr/bin/sh"):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            state[path] = f"{status.st_size} {status.st_mtime_ns} {status.st_mode:o}"
    return state


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@dataclass(kw_only=True)
class Peak:
    """The most the sandbox's processes had at a time while they were watched."""

    processes: int = 0
    memory_bytes: int = 0
    kernel_bytes: int = 0  # growth of shared memory and of the kernel's own memory, of the whole machine
    shared_bytes: int = 0  # growth of shared memory alone
    disk_bytes: int = 0  # lost free space of the machine
    asynchronous_reads: int = 0  # growth of what is set aside of a pool of the whole machine
    outside_programs: int = 0  # processes that run the launcher's interpreter where it lies outside


def inner_processes(uid: int) -> list[int]:
    """Processes of this user id in a process namespace below ours."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_inner(name, uid)]


def _is_inner(pid: str, uid: int) -> bool:
    rows = (line.split() for line in _read(Path(f"/proc/{pid}/status")).splitlines())
    status = {row[0]: row[1:] for row in rows if row}
    return len(status.get("NSpid:", [])) > 1 and status["Uid:"][0] == str(uid)


def _runs_outside(pid: int) -> bool:
    """Whether a process other than the launcher's own runs its interpreter, and not from a read-only mount."""
    if "launcher.zygote" in _read(Path(f"/proc/{pid}/cmdline")):  # asked first: it may start its command in between
        return False
    program = f"/proc/{pid}/exe"
    try:
        return os.path.samefile(program, sys.executable) and not os.statvfs(program).f_flag & os.ST_RDONLY
    except OSError:
        return False


def _asynchronous_reads() -> int:
    return int(_read(Path("/proc/sys/fs/aio-nr")) or 0)


def processes_with(token: str) -> list[int]:
    """Processes that carry the token in their command line or environment, whatever namespace they are in."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            for part in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    if token.encode() in Path(f"/proc/{name}/{part}").read_bytes():
                        found.append(int(name))
                        break
    return found


def _memory_bytes(pid: int) -> int:
    rows = (line.split() for line in _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines())
    return sum(int(row[1]) << 10 for row in rows if row and row[0] in ("Pss_Anon:", "Pss_Shmem:"))


def _kernel_and_shared_bytes() -> tuple[int, int]:
    """Memory that is neither free, nor a process's own, nor a cache of files, and the shared part of it.

    Socket buffers show nowhere else.
    """
    rows = (line.split() for line in _read(Path("/proc/meminfo")).splitlines())
    kib = {row[0]: int(row[1]) for row in rows}
    others = ("MemFree:", "Buffers:", "Cached:", "SReclaimable:", "AnonPages:")
    shared = kib["Shmem:"]
    return (kib["MemTotal:"] - sum(kib[name] for name in others) + shared) << 10, shared << 10


def _free_bytes(folder: Path) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


@dataclass(kw_only=True)
class Sampler:
    """Measures in a thread until stopped. Meanwhile it reads `reads` in turn, as a program of the host may."""

    folder: Path
    uid: int
    reads: tuple[Path, ...]
    peak: Peak = field(default_factory=Peak)

    @contextlib.contextmanager
    def watching(self) -> Iterator[Peak]:
        self.peak = Peak()
        stop = threading.Event()
        base = (*_kernel_and_shared_bytes(), _free_bytes(self.folder), _asynchronous_reads())
        thread = threading.Thread(target=self._watch, args=(stop, base), daemon=True)
        thread.start()
        try:
            yield self.peak
        finally:
            stop.set()
            thread.join()

    def _watch(self, stop: threading.Event, base: tuple[int, int, int, int]) -> None:
        peak = self.peak
        kernel_at_first, shared_at_first, free_at_first, reads_at_first = base
        reads = itertools.cycle(self.reads)
        while not stop.wait(_PERIOD_S):
            pids = inner_processes(self.uid)
            peak.processes = max(peak.processes, len(pids))
            peak.memory_bytes = max(peak.memory_bytes, sum(_memory_bytes(pid) for pid in pids))
            kernel, shared = _kernel_and_shared_bytes()
            peak.kernel_bytes = max(peak.kernel_bytes, kernel - kernel_at_first)
            peak.shared_bytes = max(peak.shared_bytes, shared - shared_at_first)
            peak.disk_bytes = max(peak.disk_bytes, free_at_first - _free_bytes(self.folder))
            peak.asynchronous_reads = max(peak.asynchronous_reads, _asynchronous_reads() - reads_at_first)
            peak.outside_programs = max(peak.outside_programs, sum(_runs_outside(pid) for pid in pids))
            for path in itertools.islice(reads, _READS_AT_A_TIME):
                path.read_bytes()
