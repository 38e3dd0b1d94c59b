"""A seccomp filter for code under test: it may signal its own children, but not whoever watches it.

Everything in a sandbox has one user id, so without it a scaffold, or a program it hands in, could stop or end the
process that serves or grades it. Filters stack and cannot be taken off; children inherit them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _DENY = 0x7FFF0000, 0x00050000 | errno.EPERM
_COLUMN = {"x86_64": 0, "aarch64": 1}
_TO_A_PROCESS = ((62, 129), (200, 130), (234, 131))  # kill, tkill, tgkill: the first argument says whom
_LIMITS = (302, 261)  # prlimit64
_BLIND = ((129, 138), (297, 240), (424, 424))  # rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal
_FCNTL, _IOCTL = (72, 25), (16, 29)  # may name who gets a signal when a file is ready
_OWNERS = {_FCNTL: (8, 10, 15), _IOCTL: (0x8901, 0x8902)}
_ARGUMENT_0, _ARGUMENT_1 = 16, 24


def leave_alone(pids: list[int]) -> None:
    """From now on this process and its children can signal none of `pids`, no group, and not everybody at once.

    Raises OSError when the kernel refuses the filter.
    """
    program = _program(sorted({1, *pids}), _COLUMN[platform.machine()])
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(text))
    for words in ((_PR_SET_NO_NEW_PRIVS, 1, 0), (_PR_SET_SECCOMP, _FILTER, header)):
        if libc.prctl(words[0], words[1], words[2], 0, 0) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _program(pids: list[int], column: int) -> bytes:
    """Reads the number of the call, then, where it matters, one argument; what is not named is allowed."""
    whom = _any_of([0, *pids]) + _step(_AT_LEAST, 0x80000000, 0, 1) + _step(_RETURN, _DENY)
    parts = [_step(_LOAD, 0)]
    parts += [_for_call(numbers[column], _ARGUMENT_0, whom) for numbers in _TO_A_PROCESS]
    parts.append(_for_call(_LIMITS[column], _ARGUMENT_0, _any_of(pids)))
    parts += [_step(_EQUAL, numbers[column], 0, 1) + _step(_RETURN, _DENY) for numbers in _BLIND]
    parts += [_for_call(call[column], _ARGUMENT_1, _any_of(list(values))) for call, values in _OWNERS.items()]
    return b"".join(parts) + _step(_RETURN, _ALLOW)


def _any_of(values: list[int]) -> bytes:
    """Denies when what is loaded is one of these."""
    return b"".join(_step(_EQUAL, value, 0, 1) + _step(_RETURN, _DENY) for value in values)


def _for_call(number: int, argument: int, checks: bytes) -> bytes:
    body = _step(_LOAD, argument) + checks + _step(_RETURN, _ALLOW)
    return _step(_EQUAL, number, 0, len(body) // 8) + body
