"""Files that are small on this disk and enormous for whoever copies them."""

from kit import *
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for number in range(1500):
    with open(f"s{number}", "wb") as file:
        file.truncate(64 << 20)
