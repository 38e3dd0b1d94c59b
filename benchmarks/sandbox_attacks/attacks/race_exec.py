"""Replaces the interpreter and the script of the running command, for the next one."""

# phases: 2
import sys
from kit import *

for path in (
    sys.executable,
    os.path.realpath(sys.executable),
    __file__,
    os.path.join(os.path.dirname(__file__), "..", "kit.py"),
    "/usr/bin/env",
    "/lib/x86_64-linux-gnu/libc.so.6",
):
    attempt(os.unlink, path)
    leave(path)
    attempt(lambda: open(path, "r+b").write(TOKEN.encode()))
attempt(lambda: open("/proc/self/exe", "r+b").write(b"x"))
attempt(lambda: os.write(os.open("/proc/self/exe", os.O_WRONLY), b"x"))
attempt(lambda: os.write(os.open("/proc/1/exe", os.O_WRONLY), b"x"))
