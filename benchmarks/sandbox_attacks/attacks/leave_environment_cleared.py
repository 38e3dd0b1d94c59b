"""Leaves processes that carry nothing one could find them by."""

from kit import *

for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        os.execve("/bin/sleep", ["kworker/0:1"] + ["40"], {})
