"""Dead children that nobody waits for, in new sessions, from parents that die."""

import time
from kit import *

for _ in range(3000):
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(0.05)
            os._exit(0)
    except OSError:
        time.sleep(0.001)
