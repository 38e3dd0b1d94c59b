"""Process 1 of a sandbox: builds the root, gives up every right, starts the command.

It is forked by its supervisor straight into user, mount, process, network, IPC, host name and control-group namespaces
of its own ("namespaces"), and waits until the supervisor has written its id maps ("maps"). Then these steps run in this
order, and the first that the kernel refuses is reported by its name:

become      the only user id of the namespace, which outside is the caller's or, for root, another one
mounts      read-only copies of what the command may see (for root already made by the supervisor)
root        the new root with the overlay, see rootfs.py
targets     the mounts, put where they shall be
proc        /proc of the new process namespace
enter       pivot_root; the host's files are out of reach
network     loopback up; with a proxy, a forwarder from a loopback port to the proxy's socket
confine     no capabilities, no new privileges, the system call filter

Process 1 ends when the command ends, and with it the kernel kills every process of its namespace.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from agents.sandbox.launcher import forward, kernel, rootfs, starter
from agents.sandbox.launcher.wire import Job

INSIDE_UID = 1000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
NAMESPACES = (
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS | kernel.CLONE_NEWCGROUP
)  # fmt: skip
_CHANGED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)  # the interpreter ignores them
_MAX_PENDING = 4096  # queued signals and timers
_NOT_FOUND, _NOT_EXECUTABLE = 127 << 8, starter.NOT_EXECUTABLE << 8  # as wait statuses
READY, FAILED, ENDED, GO = b"ready", b"failed", b"ended", b"go"
_LIMIT_FOR_NO_CORE = 1  # with 1 the kernel starts no core-dump program either; with 0 it would

Step = tuple[str, Callable[[], None]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is the same for every sandbox of this machine, prepared once: system mounts and links, and the filter."""

    mounts: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    filter: bytes


@dataclass(frozen=True, kw_only=True)
class Streams:
    """Descriptors for the command's standard streams, and the message socket to the supervisor."""

    stdin: int
    stdout: int
    stderr: int
    channel: socket.socket

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.stdin, self.stdout, self.stderr, self.channel.fileno())


def run(job: Job, streams: Streams, trees: list[rootfs.Tree] | None, plan: Plan) -> NoReturn:
    """Runs in the fresh fork of the supervisor.

    `trees` are the mounts cloned by a privileged supervisor, or None: then they are cloned with the rights of the new
    user namespace.
    """
    _keep_only({*streams.descriptors, *(tree.descriptor for tree in trees or ())})
    channel = streams.channel
    if channel.recv(16) != GO:
        os._exit(1)
    layers = f"lowerdir={':'.join(job.lowers)},upperdir={job.upper}/fs,workdir={job.upper}/work,userxattr,volatile"
    found = trees if trees is not None else []
    proc: list[int] = []
    listener: list[socket.socket] = []
    steps: list[Step] = [
        ("become", lambda: _become(channel)),
        ("mounts", lambda: found.extend(rootfs.clone_trees(plan.mounts, job)) if trees is None else None),
        ("root", lambda: rootfs.build(plan.links, layers, job.bounds)),
        ("targets", lambda: rootfs.attach_all(found)),
        ("proc", lambda: proc.append(rootfs.mount_proc())),
        ("enter", rootfs.enter),
        ("network", lambda: listener.extend(_network(bool(job.proxy)))),
        ("confine", lambda: _confine(plan.filter)),
    ]
    _run_steps(channel, steps)
    socket.send_fds(channel, [READY], proc)
    os.close(proc[0])
    standard = [_lowest(descriptor) for descriptor in streams.descriptors[:3]]
    _set_limits(job, own_processes=1 + len(listener))
    if listener:
        forward.start(listener[0], rootfs.PROXY_SOCKET)
    status = _run_command(job, standard)
    channel.send(ENDED + b" %d" % status)
    os._exit(0)


def _keep_only(descriptors: set[int]) -> None:
    """Closes what was inherited: above all the supervisor's end of the channel, whose end of file must be seen."""
    lowest = 3
    for descriptor in sorted(descriptors):
        if descriptor > lowest:
            os.closerange(lowest, descriptor)
        lowest = descriptor + 1
    os.closerange(lowest, 1 << 30)


def _run_steps(channel: socket.socket, steps: Sequence[Step]) -> None:
    """Runs the steps; at the first OSError reports its name and ends the process."""
    for name, step in steps:
        try:
            step()
        except OSError as error:
            report = f"{name} {error.errno or 0} {error.filename or error.strerror}"
            channel.send(FAILED + b" " + os.fsencode(report))
            os._exit(1)


def _become(channel: socket.socket) -> None:
    os.setresgid(INSIDE_UID, INSIDE_UID, INSIDE_UID)
    os.setresuid(INSIDE_UID, INSIDE_UID, INSIDE_UID)
    kernel.die_with_parent()
    if _is_closed(channel):  # the supervisor died before the line above
        os._exit(1)


def _is_closed(channel: socket.socket) -> bool:
    try:
        return channel.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def _network(with_proxy: bool) -> list[socket.socket]:
    """Brings loopback up; returns the forwarder's listening socket when there is a proxy."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    return [forward.listen()] if with_proxy else []


def _confine(filter_program: bytes) -> None:
    socket.sethostname("sandbox")
    kernel.drop_capabilities()
    kernel.set_dumpable(False)  # the command, of the same user id, must not look into process 1
    kernel.install_filter(filter_program)


def _run_command(job: Job, standard: Sequence[int]) -> int:
    """The command's wait status, or what a shell would make of one that cannot start, said on stderr.

    The command's program is never started by this process itself: see starter.py.
    Spawned, not forked: the interpreter's memory is not copied. It has only the three standard streams open, and
    inherits its limits from this process, which reaps every orphan of the namespace until the command ends.
    """
    os.umask(0o022)
    actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(standard)]
    try:
        program = _program(job.argv[0], job.env["PATH"])
        command = os.posix_spawn(
            rootfs.STARTER, [program, *job.argv], job.env,
            file_actions=actions, setsid=True, setsigmask=(), setsigdef=_CHANGED_SIGNALS,
        )  # fmt: skip
    except OSError as error:
        os.write(standard[2], os.fsencode(f"{job.argv[0]}: {error.strerror}\n"))
        return _NOT_FOUND if error.errno == errno.ENOENT else _NOT_EXECUTABLE
    for descriptor in standard:
        os.close(descriptor)
    while True:
        pid, status = os.wait()
        if pid == command:
            return status


def _program(name: str, search_path: str) -> str:
    """Where the command's program is. Raises FileNotFoundError."""
    if "/" in name and os.path.exists(name):
        return name
    for folder in search_path.split(":") if "/" not in name else ():
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _lowest(descriptor: int) -> int:
    """Gives a descriptor the lowest free number: the command's limit of open files holds for the number too."""
    lowest = os.dup(descriptor)
    os.close(descriptor)
    return lowest


def _set_limits(job: Job, own_processes: int) -> None:
    bounds = job.bounds
    resource.setrlimit(resource.RLIMIT_CPU, (bounds.cpu_s, bounds.cpu_s + 1))  # SIGXCPU first, SIGKILL a second later
    for kind, value in (
        (resource.RLIMIT_DATA, bounds.memory_bytes),
        (resource.RLIMIT_FSIZE, bounds.file_bytes),
        (resource.RLIMIT_NOFILE, bounds.open_files),
        (resource.RLIMIT_NPROC, bounds.processes + own_processes),
        (resource.RLIMIT_CORE, _LIMIT_FOR_NO_CORE),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_SIGPENDING, _MAX_PENDING),
    ):
        resource.setrlimit(kind, (value, value))
