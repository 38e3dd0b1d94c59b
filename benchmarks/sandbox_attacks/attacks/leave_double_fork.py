"""Leaves the tree again and again: each generation starts a session, forks and ends, past the deadline."""

# control: yes
import time
from kit import *

if os.fork() == 0:
    for _ in range(300):
        attempt(os.setsid)
        if os.fork() > 0:
            os._exit(0)
        time.sleep(0.05)
    os._exit(0)
time.sleep(0.2)
