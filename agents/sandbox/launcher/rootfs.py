"""The file system a command sees: the system's programs and its own workspace, and nothing else of the host.

Read-only: /usr (and /bin, /lib ... as the host has them), a few files of /etc, the mounts asked for, and the root
itself. Writable: /workspace (an overlay whose changes go to the workspace's own layer), /tmp and /dev/shm (in memory,
limited, gone afterwards). /proc shows the sandbox's own processes and cannot be written. There is no /sys, no /home,
no /root, in /run only what starts the command and the proxy, no device but null, zero (to read), full, random, urandom.
"""

# ruff: noqa: S108
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from agents.sandbox.launcher import kernel, starter
from agents.sandbox.launcher.wire import Bounds, Job

NEW_ROOT = "/tmp"  # covered by a file system of our own, in our own mount namespace
PROXY_SOCKET = "/run/egress.sock"
STARTER = "/run/start"
WORKSPACE = "/workspace"
# A shared mapping of /dev/zero is memory that belongs to no process. /dev/full reads as zeros too, and has no mapping.
_DEVICES = {"null": "null", "zero": "full", "full": "full", "random": "random", "urandom": "urandom"}
_BYTES_PER_SCRATCH_FILE = 4096
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mono", "protocols", "services",
    "ssl/certs",
)  # fmt: skip
_JAVA_SETTINGS = "java"
MOST_TCP_BUFFER_BYTES = 208 << 10
_TCP_BUFFER_BYTES = f"4096 65536 {MOST_TCP_BUFFER_BYTES}"  # least, at first, most
_HIDDEN_IN_PROC = ("kcore", "keys", "key-users", "kmsg", "sysrq-trigger", "timer_list", "sched_debug")
_USER_FILES = {
    "passwd": "sandbox:x:1000:1000::/tmp:/bin/sh\n",
    "group": "sandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
}


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A detached, restricted copy of a mount tree and where it goes inside."""

    descriptor: int
    target: str
    is_folder: bool


def system_mounts() -> tuple[tuple[str, str], ...]:
    """(source, target) of the programs, libraries and settings every command sees."""
    pairs = [(path, path) for path in _SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    names = list(_SETTINGS) + [name for name in sorted(os.listdir("/etc")) if name.startswith(_JAVA_SETTINGS)]
    pairs += [(f"/etc/{name}", f"/etc/{name}") for name in names if os.path.exists(f"/etc/{name}")]
    pairs += [(f"/dev/{source}", f"/dev/{name}") for name, source in _DEVICES.items()]
    return tuple(pairs)


def system_links() -> tuple[tuple[str, str], ...]:
    """(path, what it points to) of the links a merged /usr needs."""
    return tuple((path, os.readlink(path)) for path in _SYSTEM if os.path.islink(path))


def clone_trees(system: Iterable[tuple[str, str]], job: Job) -> list[Tree]:
    """Detached read-only copies of everything the command sees besides its overlay.

    Needs the right to mount where the sources are visible. Raises OSError.
    """
    proxy = [(job.proxy, PROXY_SOCKET)] if job.proxy else []
    return [_clone(source, target) for source, target in (*system, *job.mounts, *proxy)]


def _clone(source: str, target: str) -> Tree:
    descriptor = kernel.open_tree(source)
    device = target.startswith("/dev/")
    attributes = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | (0 if device else kernel.MOUNT_ATTR_NODEV)
    kernel.restrict_tree(descriptor, attributes)
    return Tree(descriptor=descriptor, target=target, is_folder=os.path.isdir(f"/proc/self/fd/{descriptor}"))


def build(links: Iterable[tuple[str, str]], layers: str, bounds: Bounds) -> None:
    """Builds the root below NEW_ROOT, without the trees.

    `layers` are the overlay's options, with names relative to the current folder, so that nothing above that folder has
    to be accessible. Called as the first process of new user, mount and process namespaces.
    """
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    quiet = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", NEW_ROOT, "tmpfs", quiet, "size=4m,nr_inodes=4096,mode=755")
    for name in ("workspace", "proc", "tmp", "etc", "dev", "dev/shm", "run"):
        os.mkdir(f"{NEW_ROOT}/{name}")
    kernel.mount("overlay", NEW_ROOT + WORKSPACE, "overlay", quiet, layers)
    num_files = min(bounds.files, 1 + bounds.scratch_bytes // _BYTES_PER_SCRATCH_FILE)  # the folder itself is one
    scratch = f"size={bounds.scratch_bytes},nr_inodes={num_files},mode=1777"
    kernel.mount("tmpfs", f"{NEW_ROOT}/tmp", "tmpfs", quiet, scratch)
    kernel.mount("tmpfs", f"{NEW_ROOT}/dev/shm", "tmpfs", quiet, scratch)
    for path, to in links:
        os.symlink(to, NEW_ROOT + path)
    _write_files()


def attach_all(trees: Iterable[Tree]) -> None:
    """Attaches the trees to the new root.

    A folder of /tmp that leads to one becomes read-only: nobody can move it and put another in its place.
    """
    covered: set[str] = set()
    quiet = kernel.MS_NOSUID | kernel.MS_NODEV
    for tree in trees:
        parts = tree.target.split("/")
        if parts[1] == "tmp" and len(parts) > 3 and parts[2] not in covered:
            covered.add(parts[2])
            os.mkdir(f"{NEW_ROOT}/tmp/{parts[2]}")
            kernel.mount("tmpfs", f"{NEW_ROOT}/tmp/{parts[2]}", "tmpfs", quiet, "size=1m,nr_inodes=1024,mode=755")
        _attach(tree)
    for name in covered:
        flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | quiet
        kernel.mount("", f"{NEW_ROOT}/tmp/{name}", "", flags)


def mount_proc() -> int:
    """Mounts /proc for the new process namespace, read-only, and returns a descriptor of it.

    Before it becomes read-only, it bounds the buffers of a TCP socket in the new network namespace, as watch.py counts.
    """
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    proc = f"{NEW_ROOT}/proc"
    kernel.mount("proc", proc, "proc", flags)
    for name in ("tcp_rmem", "tcp_wmem"):
        kernel.write_file(f"{proc}/sys/net/ipv4/{name}", _TCP_BUFFER_BYTES)
    kernel.mount("", proc, "", flags | kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY)
    for name in _HIDDEN_IN_PROC:
        if os.path.exists(f"{proc}/{name}"):
            kernel.mount(f"{NEW_ROOT}/dev/null", f"{proc}/{name}", "", kernel.MS_BIND)
    return os.open(proc, os.O_RDONLY | os.O_DIRECTORY)


def enter() -> None:
    """Makes NEW_ROOT the root, read-only, and lets go of the host's tree."""
    os.chdir(NEW_ROOT)
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("", "/", "", flags)
    os.chdir(WORKSPACE)


def _attach(tree: Tree) -> None:
    target = NEW_ROOT + tree.target
    try:
        _make_place(target, tree.is_folder)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _make_place(target, tree.is_folder)
    kernel.attach_tree(tree.descriptor, target)
    os.close(tree.descriptor)


def _make_place(target: str, is_folder: bool) -> None:
    with contextlib.suppress(FileExistsError):
        if is_folder:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def _write_files() -> None:
    for name, text in _USER_FILES.items():
        kernel.write_file(f"{NEW_ROOT}/etc/{name}", text, create=True)
    descriptor = os.open(NEW_ROOT + STARTER, os.O_WRONLY | os.O_CREAT, 0o555)
    os.write(descriptor, starter.program())
    os.close(descriptor)
    for name, to in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(to, f"{NEW_ROOT}/dev/{name}")
