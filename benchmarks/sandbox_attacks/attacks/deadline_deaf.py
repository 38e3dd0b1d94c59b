"""Many busy processes that ignore every signal they can, past the deadline."""

import signal
from kit import *

for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(40):
    try:
        os.fork()
    except OSError:
        break
while True:
    pass
