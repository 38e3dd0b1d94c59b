"""Leaves a daemon: new session, other parent, deaf to signals, its name changed."""

# control: yes
import signal, sys, time
from kit import *

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        for fd in range(3):
            os.close(fd)
        os.execv(sys.executable, ["daemon", "-S", "-c", f"import time; time.sleep(30) # {TOKEN}"])
    os._exit(0)
time.sleep(0.3)
