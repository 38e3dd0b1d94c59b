"""Ends at once but leaves a child that holds the output open, so that a reader waits for ever."""

import time
from kit import *

if os.fork() == 0:
    os.setsid()
    time.sleep(60)
print("done", flush=True)
os._exit(0)
