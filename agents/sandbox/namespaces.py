"""The isolated implementation: Linux namespaces, an overlay, no network, no rights, limits.

What holds: the code runs as another, unprivileged user id when we are root, in user, mount, process, network, IPC, host
name and control-group namespaces of its own; it sees the system's programs read-only, its own workspace, and the
read-only mounts of its command; it has no capabilities, cannot gain any, and cannot make namespaces; it reaches no
network but, when given, the egress proxy; processor time, memory, processes, files, disk and output are bounded; when
the command ends or its deadline passes the kernel kills every process of it.

What it does not cover: faults of the kernel itself; what can be learned from timing, caches and load; reading what
every user of the machine can read below /usr and in /proc; some memory of the kernel where no control group bounds it;
disk space held by deleted files in flight between processes, which only `min_free_bytes` bounds; anything that trusts
the code's own output. README.md has the whole list.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from agents.sandbox import workspaces
from agents.sandbox.launcher import forward, seccomp, supervise, wire, zygote
from agents.sandbox.protocol import DEFAULT_PATH, Command, Facts, Outcome, Reaped, Result, Workspace
from agents.sandbox.refusals import refusal
from contracts.errors import DiskFull, EnvironmentFault, LatheError, UserInputError

OTHER_UID = 700_000  # used by nobody; what root's sandboxes run as
_ROOT_OF_IMPORTS = Path(__file__).resolve().parents[2]
_LOG = "launcher.log"
_MINUTE_S = 60.0
_DIES_WITHIN_S = 0.2
_MAX_NAME_BYTES, _MAX_TARGET_BYTES = 255, 2048  # the kernel takes names of 255 bytes, and paths of 4095 with our prefix
_RESERVED = ("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "usr", "workspace")
_OUTCOMES = {
    supervise.TIMEOUT: Outcome.TIMEOUT,
    supervise.CPU: Outcome.CPU,
    supervise.MEMORY: Outcome.MEMORY,
    supervise.DISK: Outcome.DISK,
}


class NamespaceSandbox:
    """See `protocol.Sandbox`. `root` is a folder for workspaces, on a file system with user attributes (ext4, xfs).

    `uid` is the user id of the code when we are root (never root's own). Commands are ended when less than
    `min_free_bytes` of disk are left. Raises EnvironmentFault when the kernel does not allow the isolation.
    """

    def __init__(self, root: Path, *, uid: int = OTHER_UID, min_free_bytes: int = 1 << 30) -> None:
        if not seccomp.supported():
            raise refusal("confine", 0, "this processor architecture")
        self._uid = _checked_uid(uid) if os.geteuid() == 0 else os.geteuid()
        self._min_free_bytes = min_free_bytes
        self._root = root
        _check_free_space(root, min_free_bytes)
        self._control_lock = threading.Lock()
        self._store = workspaces.LayerStore(root, self._uid)
        try:
            self._control, self._zygote, self._group_bounds = _start_zygote(self._store)
        except BaseException:
            self._store.close()
            raise
        self._empty = self._store.new()
        self._store.hold([self._empty])
        self._try_once()

    def create(self, source: Path | None = None) -> workspaces.LayeredWorkspace:
        if source is None:
            return workspaces.LayeredWorkspace(self._store, (self._empty,), (self._empty,))
        layer = self._store.new_import(source)
        return workspaces.LayeredWorkspace(self._store, (layer,), (layer,))

    def run(self, workspace: Workspace, command: Command) -> Result:
        if not isinstance(workspace, workspaces.LayeredWorkspace) or workspace.store is not self._store:
            raise UserInputError("this workspace belongs to another sandbox", remedy="use the sandbox that created it")
        with workspace.occupied() as stack:
            job = self._job(stack, command)
            self._store.renew_work(stack.upper)
            ours, theirs = socket.socketpair()
            with ours:
                self._hand_over(theirs)
                ours.settimeout(command.limits.wall_s + _MINUTE_S)
                try:
                    with contextlib.suppress(BrokenPipeError):  # it may have been refused before all was sent
                        wire.send(ours, job, command.stdin)
                    report, stdout, stderr = wire.receive_report(ours)
                except OSError as error:
                    raise self._broke_off(str(error)) from error
        return self._result(report, stdout, stderr)

    def facts(self) -> Facts:
        notes = [] if "memory" in self._group_bounds else ["memory is watched every 50 ms, not bounded by the kernel"]
        if not self._group_bounds:
            notes.append("no control group is writable: processes are bounded by RLIMIT_NPROC")
        return Facts(name="namespaces", isolated=True, uid=self._uid, cgroups=self._group_bounds, notes=tuple(notes))

    def reap(self) -> Reaped:
        return workspaces.reap(self._root)

    @property
    def launcher_pid(self) -> int:
        return self._zygote.pid

    def close(self) -> None:
        self._control.close()
        self._zygote.wait()
        self._store.close()

    def _try_once(self) -> None:
        workspace = self.create()
        try:
            result = self.run(workspace, Command(argv=("/bin/true",)))
            if not result.ok:
                raise refusal("start", 0, f"/bin/true: {result.stderr.decode(errors='replace')}")
        except BaseException:
            self.close()
            raise
        workspace.discard()

    def _hand_over(self, connection: socket.socket) -> None:
        with connection, self._control_lock:
            try:
                socket.send_fds(self._control, [b"job"], [connection.fileno()])
            except OSError as error:
                raise self._broke_off(str(error)) from error

    def _broke_off(self, reason: str) -> LatheError:
        """Why there is no answer: we were closed, or somebody has killed what served the command."""
        if self._control.fileno() < 0:
            return workspaces.was_closed()
        try:
            self._zygote.wait(_DIES_WITHIN_S)
        except subprocess.TimeoutExpired:
            who, remedy = "process that ran the command", "run it again"
        else:
            who, remedy = "sandbox launcher", "open a new sandbox"
        return EnvironmentFault(
            f"the {who} was killed: {reason} {_last_words(self._store)}".strip(),
            remedy=f"{remedy}; if it repeats, free memory, or see who kills processes of this sandbox",
        )

    def _job(self, stack: workspaces.Stack, command: Command) -> wire.Job:
        for mount in command.mounts:
            mount.must_exist()
        bounds = wire.Bounds(min_free_bytes=self._min_free_bytes, **vars(command.limits))
        proxy = f"http://127.0.0.1:{forward.PORT}"
        through_proxy = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
        env = {"PATH": DEFAULT_PATH, "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108
        return wire.Job(
            argv=list(command.argv),
            env={**env, **(through_proxy if command.proxy else {}), **command.env},
            lowers=[f"{layer}/fs" for layer in stack.lowers],
            upper=stack.upper,
            mounts=[(str(mount.source.absolute()), _checked_target(mount.inside)) for mount in command.mounts],
            proxy=_checked_proxy(command.proxy) if command.proxy else "",
            uid=self._uid,
            bounds=bounds,
        )

    def _result(self, report: wire.Report, stdout: bytes, stderr: bytes) -> Result:
        if report.refused_stage:
            raise refusal(report.refused_stage, report.refused_errno, report.refused_what)
        if report.killed in (supervise.LOST, supervise.CANCELLED):
            raise self._broke_off("its sandbox ended before it")
        status = signal.SIGKILL if report.status is None else report.status  # as a wait status
        exited = not report.killed and os.WIFEXITED(status)
        return Result(
            outcome=_OUTCOMES.get(report.killed, Outcome.EXITED if exited else Outcome.SIGNALLED),
            exit_code=os.WEXITSTATUS(status) if exited else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            stdout=stdout,
            stderr=stderr,
            stdout_truncated=report.stdout_truncated,
            stderr_truncated=report.stderr_truncated,
            wall_s=report.wall_s,
            cpu_s=report.cpu_s,
            peak_memory_bytes=report.peak_memory_bytes,
        )


def _last_words(store: workspaces.LayerStore) -> str:
    """The last line of the launcher's log."""
    with contextlib.suppress(FileNotFoundError):  # the sandbox was closed meanwhile
        return (store.folder / _LOG).read_text(errors="replace").strip().rpartition("\n")[2]
    return ""


def _check_free_space(root: Path, min_free_bytes: int) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(root).free
    if free_bytes < min_free_bytes:
        raise DiskFull(
            f"only {free_bytes} bytes are free below {root}; sandboxes would be ended at {min_free_bytes}",
            remedy="free disk space, or choose another folder or a smaller min_free_bytes",
        )


def _checked_uid(uid: int) -> int:
    """Another user id than root's that this (perhaps itself nested) user namespace knows."""
    rows = (line.split() for line in Path("/proc/self/uid_map").read_text().splitlines())
    if uid == 0 or not any(int(first) <= uid < int(first) + int(count) for first, _, count in rows):
        raise UserInputError(
            f"code cannot run as user id {uid} here", remedy="give a uid that is not 0 and is in /proc/self/uid_map"
        )
    return uid


def _checked_target(target: str) -> str:
    parts = target.split("/")
    odd = any(part in ("", ".", "..") or len(os.fsencode(part)) > _MAX_NAME_BYTES for part in parts[1:])
    odd |= len(os.fsencode(target)) > _MAX_TARGET_BYTES
    if parts[0] or len(parts) < 2 or odd or parts[1] in _RESERVED or target == "/tmp":  # noqa: S108
        raise UserInputError(
            f"'{target}' cannot be a mount inside the sandbox",
            remedy="give the mount a target such as /inputs/NAME: absolute, no name in it longer than "
            f"{_MAX_NAME_BYTES} bytes, and outside /" + ", /".join(_RESERVED),
        )
    return target


def _checked_proxy(path: Path) -> str:
    if not path.is_socket():
        raise UserInputError(
            f"there is no unix socket at proxy {path}", remedy="give the socket_path of a started EgressProxy"
        )
    return str(path.absolute())


def _start_zygote(
    store: workspaces.LayerStore,
) -> tuple[socket.socket, subprocess.Popen[bytes], tuple[str, ...]]:
    """The launcher process, its control socket, and what control groups bound. Raises EnvironmentFault."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = f"import sys; sys.path.insert(0, {str(_ROOT_OF_IMPORTS)!r})"
    code = f"{path}; from agents.sandbox.launcher.zygote import main; main()"
    descriptors = (theirs.fileno(), store.lock_descriptor)
    words = [code, str(descriptors[0]), str(store.folder), str(descriptors[1])]
    with theirs, open(store.folder / _LOG, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", *words], pass_fds=descriptors, env={},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            start_new_session=True,  # an interrupt at the terminal is for the caller; we end when it closes the socket
        )  # fmt: skip
    kind, _, bounds = ours.recv(256).partition(b" ")
    if kind != zygote.HELLO:
        process.wait()
        ours.close()
        raise refusal("start", 0, f"the launcher process {_last_words(store)}")
    return ours, process, tuple(bounds.decode().split(",")) if bounds else ()
