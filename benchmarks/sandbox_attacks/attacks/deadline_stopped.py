"""Stops itself and everybody, so that nothing is there to react."""

import signal, time
from kit import *

for _ in range(10):
    if os.fork() == 0:
        os.setsid()
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(60)
os.kill(1, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
