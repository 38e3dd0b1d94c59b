"""The system calls a sandboxed command may not make, as a seccomp filter.

Everything else is allowed: the namespaces, not this list, are the wall. The list takes away what reaches the kernel
through rarely used doors, what could build new namespaces inside (and so regain capabilities), what namespaces do not
cover (vsock, keyrings, the clock), and memory that belongs to no process and so counts nowhere against the limit
(memory files, System V memory, queues and semaphores, queues of asynchronous reads, extended attributes of files in
memory, what was swapped out at the command's own wish; and, where no control group counts it, anonymous memory shared
between processes, which stays when its mapping goes). Asking for larger socket buffers has no effect, for the same
reason. Preallocating disk space is refused, since it fills a disk faster than anybody can count; the C library then
writes instead. Files of the host that are seen inside cannot be watched (inotify and its elders) or leased.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable

from agents.sandbox.launcher import kernel

_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_ANY_BIT = 0x45
_JUMP_AT_LEAST = 0x35
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL = 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
_X32_BIT = 0x40000000

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN = {"x86_64": 0, "aarch64": 1}

# name: (x86_64, aarch64); None where the architecture has no such call
_NOT_PERMITTED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "delete_module": (176, 106), "fanotify_init": (300, 262),
    "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447), "modify_ldt": (154, None), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142),
    "request_key": (249, 218), "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268),
    "settimeofday": (164, 170), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116),
    "umount2": (166, 39), "unshare": (272, 97), "uselib": (134, None), "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
# Answered as if the kernel lacked them. After this answer the C library falls back from clone3 to clone, whose flags a
# filter can read.
_NOT_THERE: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435), "inotify_init": (253, None), "inotify_init1": (294, 26), "io_setup": (206, 0),
    "memfd_create": (319, 279), "msgget": (68, 186), "semget": (64, 190), "shmget": (29, 194),
}  # fmt: skip
# Answered as if no file system had extended attributes, or space to set aside.
_NOT_SUPPORTED: dict[str, tuple[int | None, int | None]] = {
    "fallocate": (285, 47), "fsetxattr": (190, 7), "lsetxattr": (189, 6), "setxattr": (188, 5),
    "setxattrat": (463, 463),
}  # fmt: skip
_CLONE, _FCNTL, _IOCTL, _MADVISE, _MMAP = (56, 220), (72, 25), (16, 29), (28, 233), (9, 222)
_SETSOCKOPT, _SOCKET, _SOCKETPAIR = (54, 208), (41, 198), (53, 199)
_NEW_NAMESPACE = (
    kernel.CLONE_NEWNS | kernel.CLONE_NEWCGROUP | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET
)  # fmt: skip
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_PREALLOCATION = (0x40305828, 0x4030582A, 0x40305839)  # FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE
_MADV_PAGEOUT = 21
_FILE_NOTICES = (1024, 1026, 1040)  # F_SETLEASE, F_NOTIFY, F_SETDELEG
_MAP_SHARED, _MAP_ANONYMOUS = 0x1, 0x20  # the first is also a bit of MAP_SHARED_VALIDATE, and of no other type
_SOL_SOCKET, _BUFFER_SIZES = 1, (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and both with FORCE
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_INTERNET = (0, 1, 6, 17, 58)  # default, ICMP, TCP, UDP, ICMPv6
_NETLINK_ROUTE = 0
_ALLOWED = struct.pack("=HBBI", _RETURN, 0, 0, _ALLOW)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _answer(number: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | number)


def _argument(index: int) -> bytes:
    """Loads the low word of an argument: the kernel reads no more of the ones checked here."""
    return _instruction(_LOAD_WORD, 16 + 8 * index)


def _if_equal(value: int, block: bytes) -> bytes:
    """`block`, every path of which returns, for one value; otherwise goes on behind it."""
    return _instruction(_JUMP_EQUAL, value, 0, len(block) // 8) + block


def _one_of(values: Iterable[int], answer: bytes, otherwise: bytes) -> bytes:
    return b"".join(_if_equal(value, answer) for value in values) + otherwise


def _clone_block() -> bytes:
    return _argument(0) + _instruction(_JUMP_ANY_BIT, _NEW_NAMESPACE, 0, 1) + _answer(errno.EPERM) + _ALLOWED


def _fcntl_block() -> bytes:
    return _argument(1) + _one_of(_FILE_NOTICES, _answer(errno.EINVAL), _ALLOWED)


def _mmap_block() -> bytes:
    """No anonymous memory that is shared."""
    is_shared = _instruction(_JUMP_ANY_BIT, _MAP_SHARED, 0, 1) + _answer(errno.EPERM)
    return _argument(3) + _instruction(_JUMP_ANY_BIT, _MAP_ANONYMOUS, 0, 2) + is_shared + _ALLOWED


def _ioctl_block() -> bytes:
    preallocation = _one_of(_PREALLOCATION, _answer(errno.EOPNOTSUPP), _ALLOWED)
    return _argument(1) + _one_of(_TERMINAL_INPUT, _answer(errno.EPERM), preallocation)


def _madvise_block() -> bytes:
    return _argument(2) + _one_of((_MADV_PAGEOUT,), _answer(errno.EINVAL), _ALLOWED)


def _setsockopt_block() -> bytes:
    buffers = _argument(2) + _one_of(_BUFFER_SIZES, _answer(0), _ALLOWED)
    return _argument(1) + _one_of((_SOL_SOCKET,), buffers, _ALLOWED)


def _socket_block() -> bytes:
    """Unix sockets, the usual protocols of the internet, and the netlink family that names network devices."""
    refused = _answer(errno.EAFNOSUPPORT)
    internet = _argument(2) + _one_of(_INTERNET, _ALLOWED, _answer(errno.EPROTONOSUPPORT))
    netlink = _argument(2) + _one_of((_NETLINK_ROUTE,), _ALLOWED, refused)
    of_internet = _one_of((_INET, _INET6), internet, _one_of((_NETLINK,), netlink, refused))
    return _argument(0) + _one_of((_UNIX,), _ALLOWED, of_internet)


def supported() -> bool:
    return platform.machine() in _ARCHITECTURES


def program(*, memory_is_bounded: bool) -> bytes:
    """The filter for this machine's architecture. Raises KeyError where `supported` is false.

    `memory_is_bounded`: a control group counts all memory of the command, also that which is shared.
    """
    machine = platform.machine()
    column = _COLUMN[machine]
    kill = _instruction(_RETURN, _KILL)
    parts = [
        _instruction(_LOAD_WORD, _ARCHITECTURE),
        _instruction(_JUMP_EQUAL, _ARCHITECTURES[machine], 1, 0) + kill,
        _instruction(_LOAD_WORD, _NUMBER),
    ]
    if machine == "x86_64":
        parts.append(_instruction(_JUMP_AT_LEAST, _X32_BIT, 0, 1) + kill)
    tables = ((_NOT_PERMITTED, errno.EPERM), (_NOT_THERE, errno.ENOSYS), (_NOT_SUPPORTED, errno.EOPNOTSUPP))
    for table, number in tables:
        calls = (numbers[column] for numbers in table.values())
        parts.extend(_if_equal(call, _answer(number)) for call in calls if call is not None)
    blocks = (
        (_CLONE, _clone_block()), (_FCNTL, _fcntl_block()), (_IOCTL, _ioctl_block()), (_MADVISE, _madvise_block()),
        (_SETSOCKOPT, _setsockopt_block()), (_SOCKET, _socket_block()), (_SOCKETPAIR, _socket_block()),
        *(() if memory_is_bounded else ((_MMAP, _mmap_block()),)),
    )  # fmt: skip
    parts.extend(_if_equal(call[column], block) for call, block in blocks)
    parts.append(_ALLOWED)
    return b"".join(parts)
