"""Bounds the memory of a command as a whole where no control group does."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass

from agents.sandbox.launcher import watch

_EVERY_S = 0.05
_SHARE = 10  # counting may take a tenth of the time,
_STEPS = 8  # but it is done at once when the machine has lost an eighth of the limit since
_WALK_WITHIN_S = 0.25


@dataclass(kw_only=True)
class MemoryWatch:
    """Counts again and again what all processes hold together.

    To count pages that processes share only once is exact and slow. So it is done only when the quick count, which is
    never too low, is too high.
    """

    limit: int
    peak_bytes: int = 0
    available: int = 0  # bytes of the machine when last counted
    next_s: float = 0.0

    def exceeded(self, proc: int) -> bool:
        started, available = time.monotonic(), watch.available_bytes()
        if started < self.next_s and self.available - available < self.limit // _STEPS:
            return False
        sockets = watch.socket_bytes(proc)
        held = sockets + watch.resident_bytes(proc, shared_once=False)
        if held > self.limit and (exact := _exact_bytes(proc)) is not None:
            held = sockets + exact
        ended = time.monotonic()
        self.available, self.next_s = available, ended + max(_EVERY_S, _SHARE * (ended - started))
        self.peak_bytes = max(self.peak_bytes, held)
        return held > self.limit


def _exact_bytes(proc: int) -> int | None:
    """None when it takes too long. A child counts, for a process can make its reader wait until that is killed."""
    answer, write = os.pipe()
    counter = os.fork()
    if counter == 0:
        try:
            os.write(write, b"%d" % watch.resident_bytes(proc, shared_once=True))
        finally:
            os._exit(0)
    os.close(write)
    try:
        in_time = select.select([answer], [], [], _WALK_WITHIN_S)[0]
        return int(os.read(answer, 32) or b"0") or None if in_time else None
    finally:
        os.kill(counter, signal.SIGKILL)
        os.waitpid(counter, 0)
        os.close(answer)
