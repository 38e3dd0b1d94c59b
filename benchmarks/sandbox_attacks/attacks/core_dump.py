"""Crashes so that a core-dump program of the host runs, or a core file is left."""

import ctypes, resource
from kit import *

attempt(resource.setrlimit, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for _ in range(3):
    if os.fork() == 0:
        ctypes.string_at(0)
attempt(os.wait)
attempt(os.wait)
ctypes.string_at(0)
