"""System calls that Python 3.11 has no name for. Each raises OSError. Linux 5.14 or newer, x86_64 and aarch64."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEWTIME = 0x00000080

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_NUM_CAPABILITIES = 64

# The same numbers on every architecture.
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_MOUNT_SETATTR = 442
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = os.O_CLOEXEC
_AT_RECURSIVE = 0x8000
_AT_EMPTY_PATH = 0x1000
_AT_FDCWD = -100
_MOVE_MOUNT_F_EMPTY_PATH = 4

_SYS_CLONE3 = 435
_CLONE_INTO_CGROUP = 1 << 33

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_interpreter_held = ctypes.PyDLL(None, use_errno=True)
_interpreter_held.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _text(value: str) -> bytes:
    return os.fsencode(value)


def fork_into(namespaces: int, group: int | None) -> int:
    """Like os.fork, with the child in new namespaces (CLONE_NEW*) and, when given, in a version 2 control group.

    `group` is a descriptor of the group's folder. Only for a process with a single thread.

    The interpreter does not notice: the call keeps its lock, and what os.fork repairs in a child are other threads.
    """
    flags = namespaces | (0 if group is None else _CLONE_INTO_CGROUP)
    # struct clone_args: flags, three ids, exit_signal, stack, its size, tls, set_tid, its size, cgroup
    fields = struct.pack("=11Q", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group or 0)
    arguments = (
        ctypes.c_long(_SYS_CLONE3),
        ctypes.create_string_buffer(fields, len(fields)),
        ctypes.c_long(len(fields)),
    )
    return _check(_interpreter_held.syscall(*arguments), "clone3")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    arguments = (_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(options))
    _check(_libc.mount(*arguments), target)


def detach(target: str) -> None:
    _check(_libc.umount2(_text(target), ctypes.c_int(MNT_DETACH)), target)


def pivot_root(new: str, old: str) -> None:
    _check(_libc.pivot_root(_text(new), _text(old)), "pivot_root")


def open_tree(path: str) -> int:
    """A detached copy of the mount tree at `path`, as a descriptor: it can be attached in another mount namespace."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    arguments = (ctypes.c_long(_AT_FDCWD), ctypes.c_char_p(_text(path)), ctypes.c_long(flags))
    return _check(_libc.syscall(ctypes.c_long(_SYS_OPEN_TREE), *arguments), path)


def restrict_tree(tree: int, attributes: int) -> None:
    """Adds MOUNT_ATTR_* to every mount of a tree, and keeps out what will be mounted below its source later."""
    value = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, MS_PRIVATE, 0))
    flags = ctypes.c_long(_AT_EMPTY_PATH | _AT_RECURSIVE)
    arguments = (ctypes.c_long(tree), ctypes.c_char_p(b""), flags, value, ctypes.c_long(32))
    _check(_libc.syscall(ctypes.c_long(_SYS_MOUNT_SETATTR), *arguments), "mount_setattr")


def attach_tree(tree: int, target: str) -> None:
    destination = (ctypes.c_long(_AT_FDCWD), ctypes.c_char_p(_text(target)))
    arguments = (ctypes.c_long(tree), ctypes.c_char_p(b""), *destination, ctypes.c_long(_MOVE_MOUNT_F_EMPTY_PATH))
    _check(_libc.syscall(ctypes.c_long(_SYS_MOVE_MOUNT), *arguments), target)


def _prctl(option: int, second: int = 0, third: int = 0) -> int:
    return int(_libc.prctl(option, second, third, 0, 0))


def die_with_parent() -> None:
    _check(_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """From now on the descendants whose parent dies are children of this process."""
    _check(_prctl(_PR_SET_CHILD_SUBREAPER, 1), "PR_SET_CHILD_SUBREAPER")


def set_dumpable(dumpable: bool) -> None:
    _check(_prctl(_PR_SET_DUMPABLE, int(dumpable)), "PR_SET_DUMPABLE")


def drop_capabilities() -> None:
    """Empties the bounding, ambient, effective, permitted and inheritable sets, and forbids any gain by exec."""
    for number in range(_NUM_CAPABILITIES):
        if _prctl(_PR_CAPBSET_DROP, number) < 0:
            break  # above the kernel's last capability
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0))
    nothing = ctypes.create_string_buffer(struct.pack("=6I", *([0] * 6)))
    _check(_libc.capset(header, nothing), "capset")
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "PR_SET_NO_NEW_PRIVS")


def install_filter(program: bytes) -> None:
    """Installs a seccomp filter (struct sock_filter[], 8 bytes each) on the calling, single-threaded process."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    pointer = ctypes.create_string_buffer(header, len(header))
    _check(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(pointer)), "PR_SET_SECCOMP")


def write_file(path: str, text: str, *, create: bool = False) -> None:
    """In one call of the kernel, as its own files need, and without the layers of a text file."""
    descriptor = os.open(path, os.O_WRONLY | (os.O_CREAT if create else 0), 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
