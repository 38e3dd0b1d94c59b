"""Two gibibytes in one process."""

from kit import *

held = []
for _ in range(128):
    held.append(bytearray(os.urandom(1 << 12)) * 4096)
