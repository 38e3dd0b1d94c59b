"""Threads without end."""

import threading, time
from kit import *

alive = 0
for _ in range(5000):
    try:
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        alive += 1
    except RuntimeError:
        time.sleep(0.002)
print(alive)
