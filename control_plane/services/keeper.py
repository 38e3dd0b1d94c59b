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


def keep(work: Callable[[], None], *, num_children: int = 1) -> None:
    """Returns, in each child, when the work is done; ends the parent by SystemExit.

    A first child that fails ends the parent too, with its status: what is wrong is in its log. Whoever comes after it
    is started again whatever happens, because it worked before. SIGTERM and SIGINT are passed on, and end all.
    """
    kept = _Kept()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, kept.pass_on)
    parent, num_begun = os.getpid(), 0
    while True:
        while len(kept.children) < num_children and not kept.is_ending:
            if (child := os.fork()) == 0:
                _become_child(parent)
                work()
                return
            kept.children[child] = time.monotonic()
            num_begun += 1
        status, lived_s = kept.wait()
        if kept.is_ending and not kept.children:
            sys.exit(0)
        if status > 0 and num_begun == num_children:
            kept.pass_on(signal.SIGTERM, None)
            sys.exit(status)
        if lived_s < _FAST_S:
            time.sleep(_PAUSE_S)


class _Kept:
    """The children at work with the moment they began, and whether they are to end."""

    def __init__(self) -> None:
        self.children: dict[int, float] = {}
        self.is_ending = False

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        self.is_ending = True
        for child in self.children:
            os.kill(child, number)

    def wait(self) -> tuple[int, float]:
        """Exit status of the next child that ends (negative: the signal that ended it) and how long it lived."""
        if self.is_ending:  # asked to before all children were known
            self.pass_on(signal.SIGTERM, None)
        child, status = os.waitpid(-1, 0)
        return os.waitstatus_to_exitcode(status), time.monotonic() - self.children.pop(child, 0.0)


def _become_child(parent: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        sys.exit(1)
