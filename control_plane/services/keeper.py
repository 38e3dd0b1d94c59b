"""A service that comes back by itself: a parent that has everything imported forks the process that does the work.

When that one is killed the parent forks another, which is at work again without importing anything. The parent itself
only waits, so it must have neither threads nor connections; when it is killed its child dies with it, and a supervisor
or `lathe up` starts both anew. Linux only; elsewhere the child outlives its parent.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

_PR_SET_PDEATHSIG = 1
_FAST_S = 1.0  # who lives no longer is not started again at once
_PAUSE_S = 0.5


def preload(modules: Sequence[str]) -> None:
    """Import what the work will need and would otherwise import later."""
    os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # read when langgraph is imported
    for name in modules:
        importlib.import_module(name)


def keep(work: Callable[[], None]) -> None:
    """Returns, in the child, when the work is done; ends the parent by SystemExit.

    A first child that fails ends the parent too, with its status: what is wrong is in its log. Whoever comes after it
    is started again whatever happens, because it worked before. SIGTERM and SIGINT are passed on, and end both.
    """
    kept = _Kept()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, kept.pass_on)
    is_first = True
    while True:
        parent, begun_at = os.getpid(), time.monotonic()
        kept.child = os.fork()
        if kept.child == 0:
            _become_child(parent)
            work()
            return
        status = kept.wait()
        if kept.is_ending:
            sys.exit(0)
        if is_first and status > 0:
            sys.exit(status)
        is_first = False
        if time.monotonic() - begun_at < _FAST_S:
            time.sleep(_PAUSE_S)


class _Kept:
    """The child at work, and whether it is to end."""

    def __init__(self) -> None:
        self.child = 0
        self.is_ending = False

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        self.is_ending = True
        if self.child:
            os.kill(self.child, number)

    def wait(self) -> int:
        """Exit status of the child; negative: the signal that ended it."""
        if self.is_ending:  # asked to before the child was known
            os.kill(self.child, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def _become_child(parent: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        sys.exit(1)
