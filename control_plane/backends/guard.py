"""Replace this process by a command that the kernel kills as soon as its parent dies.

Usage: python -I guard.py PARENT_PID COMMAND [ARGUMENT ...]. A program of its own, because a preexec function would
run Python between fork and exec of a threaded process. Linux only; elsewhere the command simply runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 (the point of this program)
