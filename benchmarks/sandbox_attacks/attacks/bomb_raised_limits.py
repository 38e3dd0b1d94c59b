"""Raises its own limits first."""

import resource, time
from kit import *

for kind in (
    resource.RLIMIT_NPROC,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_CPU,
    resource.RLIMIT_AS,
):
    attempt(resource.setrlimit, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    attempt(resource.prlimit, 1, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for _ in range(3000):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError:
        time.sleep(0.001)
