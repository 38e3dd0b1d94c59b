"""The second implementation: a plain subprocess with limits. It isolates nothing.

For code that people wrote, and for machines whose kernel allows no namespaces when a person accepts the risk. The code
runs as the caller, sees every file and the network, and can leave processes behind by leaving its session. What holds:
the wall deadline for the process group, processor time, memory and file size of each process, and the output cap. Not
held: the number of processes and the sum of their memory; disk is only checked at the end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from agents.sandbox import workspaces
from agents.sandbox.launcher import watch
from agents.sandbox.launcher.capture import Capture, sealed_file
from agents.sandbox.protocol import (
    DEFAULT_PATH,
    Command,
    Facts,
    Limits,
    Outcome,
    Reaped,
    Result,
    Trust,
    Workspace,
)
from contracts.errors import NotPermitted, UserInputError


class FolderWorkspace(workspaces.LayeredWorkspace):
    """A workspace that is one plain folder: nothing is mounted, so a fork or snapshot is a copy."""

    def _new_stack(self, lowers: tuple[str, ...], base: tuple[str, ...]) -> workspaces.Stack:
        return workspaces.Stack(lowers=(), upper=self._store.new_copy(self._store.paths(lowers)), base=base)

    def _sealed(self) -> workspaces.Stack:
        copy = self._store.new_copy([self._store.path(self._stack.upper)])
        return workspaces.Stack(lowers=(copy,), upper=self._stack.upper, base=self._stack.base)

    def fork(self) -> FolderWorkspace:
        with self.occupied() as stack:
            return FolderWorkspace(self._store, (stack.upper,), stack.base)


class UnsafeSubprocess:
    """See `protocol.Sandbox`. `allowed_by` names the person who allows untrusted code without isolation; it is shown in
    `facts`. Without it untrusted commands raise NotPermitted.
    """

    def __init__(self, root: Path, *, allowed_by: str = "") -> None:
        self._root = root
        self._allowed_by = allowed_by
        self._store = workspaces.LayerStore(root, os.geteuid())

    def create(self, source: Path | None = None) -> FolderWorkspace:
        base = self._store.new_import(source) if source else self._store.new_copy([])
        return FolderWorkspace(self._store, (base,), (base,))

    def run(self, workspace: Workspace, command: Command) -> Result:
        if not isinstance(workspace, FolderWorkspace) or workspace.store is not self._store:
            raise UserInputError("this workspace belongs to another sandbox", remedy="use the sandbox that created it")
        self._check(command)
        with workspace.occupied() as stack:
            return _run(command, self._store.path(stack.upper))

    def facts(self) -> Facts:
        allowed = f"untrusted code allowed by {self._allowed_by}" if self._allowed_by else "untrusted code refused"
        return Facts(
            name="subprocess_unsafe", isolated=False, uid=os.geteuid(), cgroups=(), notes=("isolates nothing", allowed)
        )

    def reap(self) -> Reaped:
        return workspaces.reap(self._root)

    def close(self) -> None:
        self._store.close()

    def _check(self, command: Command) -> None:
        if command.trust == Trust.UNTRUSTED and not self._allowed_by:
            raise NotPermitted(
                "a plain subprocess does not isolate untrusted code",
                remedy="use NamespaceSandbox, or let a person allow it: UnsafeSubprocess(root, allowed_by='NAME')",
            )
        if command.proxy is not None:
            raise UserInputError("a plain subprocess cannot be held to a proxy", remedy="use NamespaceSandbox")
        for mount in command.mounts:
            mount.must_exist()
            if mount.inside != str(mount.source):
                raise UserInputError(
                    f"a plain subprocess sees {mount.source} where it is, not at {mount.target}",
                    remedy="leave the mount's target empty",
                )


def _run(command: Command, folder: Path) -> Result:
    pipes = [os.pipe(), os.pipe()]
    outputs = [Capture(descriptor=read, limit=command.limits.output_bytes) for read, _ in pipes]
    stdin = sealed_file(command.stdin)
    started = time.monotonic()
    with _closing([stdin, *(write for _, write in pipes)]):
        process = subprocess.Popen(
            [*_prlimit(command.limits), *command.argv],
            cwd=folder, stdin=stdin, stdout=pipes[0][1], stderr=pipes[1][1], start_new_session=True,
            env={"PATH": DEFAULT_PATH, "HOME": str(folder), "LANG": "C.UTF-8", **command.env},
        )  # fmt: skip
    with _closing([output.descriptor for output in outputs]):
        in_time = _wait(process.pid, outputs, started + command.limits.wall_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for output in outputs:
            output.drain()
    cpu_s = used.ru_utime + used.ru_stime
    outcome = _outcome(in_time, status, folder, command.limits)
    return Result(
        outcome=outcome,
        exit_code=process.returncode if outcome == Outcome.EXITED else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        stdout=bytes(outputs[0].data), stderr=bytes(outputs[1].data),
        stdout_truncated=outputs[0].truncated, stderr_truncated=outputs[1].truncated,
        wall_s=time.monotonic() - started, cpu_s=cpu_s, peak_memory_bytes=used.ru_maxrss << 10,
    )  # fmt: skip


@contextlib.contextmanager
def _closing(descriptors: list[int]) -> Iterator[None]:
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _prlimit(limits: Limits) -> list[str]:
    return [
        "prlimit", f"--cpu={limits.cpu_s}:{limits.cpu_s + 1}", f"--data={limits.memory_bytes}",
        f"--fsize={limits.file_bytes}", f"--nofile={limits.open_files}", "--core=1", "--",
    ]  # fmt: skip


def _wait(pid: int, outputs: list[Capture], deadline: float) -> bool:
    """Reads output until the process ends; False when the deadline came first."""
    ended = os.pidfd_open(pid)
    with _closing([ended]), selectors.PollSelector() as selector:
        selector.register(ended, selectors.EVENT_READ)
        for output in outputs:
            os.set_blocking(output.descriptor, False)
            selector.register(output.descriptor, selectors.EVENT_READ, output)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fileobj == ended:
                    return True
                if not key.data.read():
                    selector.unregister(key.fileobj)
    return False


def _outcome(in_time: bool, status: int, folder: Path, limits: Limits) -> Outcome:
    if not in_time:
        return Outcome.TIMEOUT
    if os.WIFSIGNALED(status):
        return Outcome.CPU if os.WTERMSIG(status) == signal.SIGXCPU else Outcome.SIGNALLED
    try:
        held = watch.folder_bytes(str(folder), most_files=limits.files)
    except watch.Uncountable:
        return Outcome.DISK
    return Outcome.DISK if held > limits.disk_bytes else Outcome.EXITED
