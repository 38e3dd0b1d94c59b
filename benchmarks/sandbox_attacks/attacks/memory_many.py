"""Many processes with a little less than the limit each."""

import time
from kit import *

for _ in range(12):
    if os.fork() == 0:
        held = bytearray(b"x") * (200 << 20)
        time.sleep(20)
        os._exit(0)
time.sleep(20)
