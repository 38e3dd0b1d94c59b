"""What of the host an attack could change, and what its processes use: read by the judge."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PERIOD_S = 0.02
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
    disk_bytes: int = 0  # lost free space of the machine


def inner_processes(uid: int) -> list[int]:
    """Processes of this user id in a process namespace below ours."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_inner(name, uid)]


def _is_inner(pid: str, uid: int) -> bool:
    rows = (line.split() for line in _read(Path(f"/proc/{pid}/status")).splitlines())
    status = {row[0]: row[1:] for row in rows if row}
    return len(status.get("NSpid:", [])) > 1 and status["Uid:"][0] == str(uid)


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


def _kernel_bytes() -> int:
    """Memory that is neither free, nor a process's own, nor a cache of files: socket buffers show nowhere else."""
    rows = (line.split() for line in _read(Path("/proc/meminfo")).splitlines())
    kib = {row[0]: int(row[1]) for row in rows}
    others = ("MemFree:", "Buffers:", "Cached:", "SReclaimable:", "AnonPages:")
    return (kib["MemTotal:"] - sum(kib[name] for name in others) + kib["Shmem:"]) << 10


def _free_bytes(folder: Path) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


@dataclass(kw_only=True)
class Sampler:
    """Measures in a thread until stopped."""

    folder: Path
    uid: int
    peak: Peak = field(default_factory=Peak)

    @contextlib.contextmanager
    def watching(self) -> Iterator[Peak]:
        self.peak = Peak()
        stop = threading.Event()
        base = (_kernel_bytes(), _free_bytes(self.folder))
        thread = threading.Thread(target=self._watch, args=(stop, *base), daemon=True)
        thread.start()
        try:
            yield self.peak
        finally:
            stop.set()
            thread.join()

    def _watch(self, stop: threading.Event, kernel_bytes: int, free_bytes: int) -> None:
        peak = self.peak
        while not stop.wait(_PERIOD_S):
            pids = inner_processes(self.uid)
            peak.processes = max(peak.processes, len(pids))
            peak.memory_bytes = max(peak.memory_bytes, sum(_memory_bytes(pid) for pid in pids))
            peak.kernel_bytes = max(peak.kernel_bytes, _kernel_bytes() - kernel_bytes)
            peak.disk_bytes = max(peak.disk_bytes, free_bytes - _free_bytes(self.folder))
