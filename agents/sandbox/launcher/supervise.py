"""One supervisor for one command: outside the sandbox, it starts process 1, enforces the limits and reports.

It ends the command by killing process 1, with which the kernel kills every process of the namespace. If the supervisor
itself is killed, so is process 1. It reads nothing a command wrote but the bytes of its output.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from agents.sandbox.launcher import cgroups, init, kernel, rootfs, wire
from agents.sandbox.launcher.capture import Capture, sealed_file
from agents.sandbox.launcher.disk import DiskWatch
from agents.sandbox.launcher.memory import MemoryWatch

_POLL_S = 0.02

T = TypeVar("T")
TIMEOUT, CPU, MEMORY, DISK, CANCELLED, LOST = "timeout", "cpu", "memory", "disk", "cancelled", "lost"


class Refused(Exception):
    """The kernel refused a piece of the isolation. `report` names it."""

    def __init__(self, report: wire.Report) -> None:
        super().__init__(report.refused_stage)
        self.report = report


@dataclass(kw_only=True)
class Running:
    """A started command. `proc` is a descriptor of the sandbox's own /proc."""

    job: wire.Job
    pid: int
    proc: int
    channel: socket.socket
    outputs: tuple[Capture, Capture]
    group: cgroups.Group | None
    memory_kills: int
    memory: MemoryWatch
    disk: DiskWatch
    started: float

    def close(self) -> None:
        self.channel.close()
        for descriptor in (self.proc, *(output.descriptor for output in self.outputs)):
            os.close(descriptor)

    def overdrawn(self) -> str:
        """The limit of all processes together that is exceeded, or empty."""
        kernel_bounds = self.group is not None and self.group.bounds_memory
        if not kernel_bounds and self.memory.exceeded(self.proc):
            return MEMORY
        return DISK if self.disk.exceeded(self.proc) else ""


def serve(connection: socket.socket, group: cgroups.Group | None, plan: init.Plan) -> None:
    """Runs the job that comes through the connection and answers there. The current folder is the store's.

    Raises Refused, after it was answered: what the half-built sandbox holds goes with the calling process.
    """
    job, stdin = wire.receive_job(connection)
    if group is not None:
        group.bound(processes=job.bounds.processes, memory_bytes=job.bounds.memory_bytes)
    try:
        running = _start(job, stdin, group, plan)
        report = _finish(running, *_watch(running, connection))
        wire.send(connection, report, *(bytes(output.data) for output in running.outputs))
        running.close()
    except Refused as refusal:
        wire.send(connection, refusal.report, b"", b"")
        raise


def _start(job: wire.Job, stdin: bytes, group: cgroups.Group | None, plan: init.Plan) -> Running:
    """Starts process 1 up to the moment it is about to start the command. Raises Refused."""
    as_root = os.getuid() != job.uid  # then only we can reach the sources; what runs inside cannot
    trees = _stage("mounts", lambda: rootfs.clone_trees(plan.mounts, job)) if as_root else None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
    streams = init.Streams(stdin=sealed_file(stdin), stdout=out_write, stderr=err_write, channel=theirs)
    for descriptor in (out_write, err_write) if as_root else ():
        os.fchown(descriptor, job.uid, _gid(job.uid))  # so that the command can open /dev/stderr
    pid = _stage("namespaces", lambda: kernel.fork_into(init.NAMESPACES, group.fork_into if group else None))
    if pid == 0:
        init.run(job, streams, trees, plan)
    theirs.close()
    for descriptor in (*streams.descriptors[:3], *(tree.descriptor for tree in trees or ())):
        os.close(descriptor)
    _stage("maps", lambda: _write_maps(pid, job.uid))
    ours.send(init.GO)
    proc = _wait_until_ready(ours)
    outputs = [Capture(descriptor=d, limit=job.bounds.output_bytes) for d in (out_read, err_read)]
    for output in outputs:
        os.set_blocking(output.descriptor, False)
    return Running(
        job=job, pid=pid, proc=proc, channel=ours, outputs=(outputs[0], outputs[1]), group=group,
        memory_kills=group.memory_kills() if group else 0, memory=MemoryWatch(limit=job.bounds.memory_bytes),
        disk=DiskWatch.start(f"{job.upper}/fs", job.bounds), started=time.monotonic(),
    )  # fmt: skip


def _stage(name: str, step: Callable[[], T]) -> T:
    """The step's result. Raises Refused with the stage's name instead of OSError."""
    try:
        return step()
    except OSError as error:
        raise Refused(_refusal(name, error.errno or 0, str(error.filename or error.strerror))) from error


def _write_maps(pid: int, uid: int) -> None:
    """The namespace has one user, and one group of the same number."""
    maps = (
        ("setgroups", "deny"),
        ("uid_map", f"{init.INSIDE_UID} {uid} 1"),
        ("gid_map", f"{init.INSIDE_UID} {_gid(uid)} 1"),
    )
    for name, text in (("oom_score_adj", "1000"), *maps):  # when memory runs out, sandboxes go first
        kernel.write_file(f"/proc/{pid}/{name}", text)


def _gid(uid: int) -> int:
    return os.getgid() if uid == os.getuid() else uid


def _wait_until_ready(channel: socket.socket) -> int:
    """A descriptor of the sandbox's /proc. Raises Refused."""
    message, descriptors, _, _ = socket.recv_fds(channel, 4096, 1)
    kind, _, text = message.partition(b" ")
    if kind == init.READY:
        return int(descriptors[0])
    if kind == init.FAILED:
        stage, number, what = os.fsdecode(text).split(" ", 2)
        raise Refused(_refusal(stage, int(number), what))
    raise Refused(_refusal("start", 0, "process 1 ended without a word"))


def _refusal(stage: str, number: int, what: str) -> wire.Report:
    return wire.Report(refused_stage=stage, refused_errno=number, refused_what=what)


def _watch(running: Running, connection: socket.socket) -> tuple[str, int | None]:
    """Until the command ends or has to be ended: the limit it hit, or empty, and its wait status, when known."""
    deadline, next_poll = running.started + running.job.bounds.wall_s, running.started + _POLL_S
    with selectors.PollSelector() as selector:
        for output in running.outputs:
            selector.register(output.descriptor, selectors.EVENT_READ, output)
        for end in (running.channel, connection):
            selector.register(end, selectors.EVENT_READ)
        while (now := time.monotonic()) < deadline:
            if now >= next_poll:
                if reason := running.overdrawn():
                    return reason, None
                next_poll = time.monotonic() + _POLL_S
            for key, _ in selector.select(max(0.0, min(deadline, next_poll) - now)):
                if isinstance(key.data, Capture):
                    if not key.data.read():
                        selector.unregister(key.fileobj)
                elif key.fileobj is connection:
                    return CANCELLED, None
                else:
                    return _last_word(running.channel)
    return TIMEOUT, None


def _last_word(channel: socket.socket) -> tuple[str, int | None]:
    kind, _, status = channel.recv(64).partition(b" ")
    return ("", int(status)) if kind == init.ENDED else (LOST, None)


def _finish(running: Running, killed: str, status: int | None) -> wire.Report:
    """Ends every process of the sandbox and tells what happened."""
    os.kill(running.pid, signal.SIGKILL)
    _, first_status, used = os.wait4(running.pid, 0)  # returns when the last process of the namespace is gone
    wall_s = time.monotonic() - running.started
    cpu_s = used.ru_utime + used.ru_stime
    for output in running.outputs:
        output.drain()
    if running.group is not None and running.group.memory_kills() > running.memory_kills:
        killed = killed or MEMORY
    ended_by = first_status if killed == LOST else status
    if killed in ("", LOST) and ended_by is not None and _cpu_limit_hit(ended_by, cpu_s, running.job.bounds.cpu_s):
        killed = CPU
    if not killed and running.disk.exceeded(None):
        killed = DISK
    return wire.Report(
        killed=killed, status=status, wall_s=wall_s, cpu_s=cpu_s,
        stdout_truncated=running.outputs[0].truncated, stderr_truncated=running.outputs[1].truncated,
        peak_memory_bytes=max(running.memory.peak_bytes, used.ru_maxrss << 10),
    )  # fmt: skip


def _cpu_limit_hit(status: int, cpu_s: float, limit_s: int) -> bool:
    if not os.WIFSIGNALED(status):
        return False
    number = os.WTERMSIG(status)
    return number == signal.SIGXCPU or (number == signal.SIGKILL and cpu_s >= limit_s)
