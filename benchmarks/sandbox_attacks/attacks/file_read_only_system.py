"""Writes to what is shared with the host: programs, libraries, settings."""

from kit import *

for path in (
    "/usr/local/bin/x",
    "/usr/bin/x",
    "/usr/lib/x",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/crontab",
    "/bin/sh",
    "/usr/bin/python3",
    "/etc/alternatives/x",
    "/lib64/ld-linux-x86-64.so.2",
):
    attempt(lambda: os.utime(path))
    attempt(lambda: os.chmod(path, 0o777))
    leave(path)
    attempt(lambda: os.rename(path, path + ".old"))
