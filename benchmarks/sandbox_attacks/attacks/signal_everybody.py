"""Signals to all processes one may signal, and to process 1."""

import ctypes, signal
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
for number in (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGSTOP,
    signal.SIGKILL,
    signal.SIGUSR1,
    signal.SIGSEGV,
):
    attempt(os.kill, 1, number)
    attempt(os.kill, PARENT, signal.SIGCONT)
    libc.syscall(424, attempt(os.pidfd_open, 1) if True else 0, number, 0, 0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt(os.kill, -1, signal.SIGTERM)
attempt(os.kill, -1, signal.SIGKILL)
attempt(os.kill, 0, signal.SIGKILL)
