"""The process all sandboxes of one caller are forked from: small, single-threaded, with nothing secret in its memory.

It keeps one supervisor more than there are commands: each waits on the caller's control socket for a connection, serves
one command, and waits again (forking one for each command would copy an interpreter's memory each time). When the
caller closes the socket or dies, everything here ends, and with it every sandbox.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import NoReturn

from agents.sandbox.launcher import cgroups, init, kernel, rootfs, seccomp, supervise

HELLO = b"ready"
_END_WITHIN_S = 2.0
_IDLE_MS = 60_000
_MAX_JOBS = 500  # without a garbage collector a supervisor grows
_NEWS = struct.Struct("=i?")  # process id, is it free


def main() -> None:
    """Arguments: the control socket's descriptor, the store's folder (becomes the current one), and the descriptor of
    the owner's lock file: supervisors keep it locked, and the name of our control group is left there for a reaper.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    os.chdir(sys.argv[2])
    group = f"lathe-{os.getpid()}-{_start_time()}"
    os.pwrite(int(sys.argv[3]), group.encode(), 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o022)
    if os.geteuid() == 0:
        os.setgroups([])  # a sandbox cannot give them up itself
    kernel.adopt_orphans()
    parent = cgroups.open_parent(group)
    memory_is_bounded = parent is not None and parent.bounds_memory
    filter_program = seccomp.program(memory_is_bounded=memory_is_bounded)
    plan = init.Plan(mounts=rootfs.system_mounts(), links=rootfs.system_links(), filter=filter_program)
    gc.collect()
    gc.freeze()
    gc.disable()
    control.send(HELLO + b" " + (b"pids,memory" if memory_is_bounded else b"pids" if parent else b""))
    crew = Crew(control=control, parent=parent, plan=plan)
    crew.work_until_closed()
    crew.end()
    cgroups.remove_parent(group)


@dataclass(kw_only=True)
class Crew:
    """The supervisors: all, and those that wait for a job. Each says on the pipe `news` when it begins and ends one."""

    control: socket.socket
    parent: cgroups.Parent | None
    plan: init.Plan
    news: tuple[int, int] = field(default_factory=os.pipe)
    all: set[int] = field(default_factory=set)
    free: set[int] = field(default_factory=set)

    def work_until_closed(self) -> None:
        watch = select.poll()
        watch.register(self.control, 0)  # hang-up only: jobs are for the supervisors
        watch.register(self.news[0], select.POLLIN)
        while True:
            self._reap()
            if not self.free:
                self._add()
            for descriptor, _ in watch.poll(_IDLE_MS):
                if descriptor == self.control.fileno():
                    return
                self._note(os.read(self.news[0], _NEWS.size * 64))

    def end(self) -> None:
        """Ends what still runs. Process 1 of each sandbox dies with its supervisor and becomes our child."""
        for pid in self.all:
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + _END_WITHIN_S
        while self._reap() and time.monotonic() < until:
            time.sleep(0.001)

    def _add(self) -> None:
        pid = os.fork()
        if pid == 0:
            _supervise(self.control, self.news[1], self.parent, self.plan)
        self.all.add(pid)
        self.free.add(pid)

    def _reap(self) -> bool:
        """Buries the dead; whether there are still children alive."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self.free.discard(pid)
                if pid in self.all and self.parent is not None:
                    self.parent.remove_group(pid)
                self.all.discard(pid)
            return True
        return False

    def _note(self, news: bytes) -> None:
        for pid, is_free in _NEWS.iter_unpack(news):
            if is_free and pid in self.all:
                self.free.add(pid)
            else:
                self.free.discard(pid)


def _supervise(control: socket.socket, news: int, parent: cgroups.Parent | None, plan: init.Plan) -> NoReturn:
    """Serves jobs until there were none for a while, or one was refused, or the caller is gone."""
    kernel.die_with_parent()
    pid = os.getpid()
    group = parent.open_group() if parent is not None else None
    for _ in range(_MAX_JOBS):
        descriptor = _next_job(control)
        if descriptor is None:
            break
        os.write(news, _NEWS.pack(pid, False))
        try:
            with socket.socket(fileno=descriptor) as connection:
                supervise.serve(connection, group, plan)
        except (ConnectionError, supervise.Refused):
            break
        os.write(news, _NEWS.pack(pid, True))
    os.write(news, _NEWS.pack(pid, False))
    os._exit(0)


def _next_job(control: socket.socket) -> int | None:
    """The descriptor of the connection a job comes through, or None when there is none."""
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    while waiting.poll(_IDLE_MS):
        try:
            _, descriptors, _, _ = socket.recv_fds(control, 16, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue  # another supervisor was faster
        return int(descriptors[0]) if descriptors else None
    return None


def _start_time() -> str:
    """Of this process, in clock ticks since boot: with the process id it names us for good."""
    with open("/proc/self/stat") as file:
        return file.read().rpartition(")")[2].split()[19]
