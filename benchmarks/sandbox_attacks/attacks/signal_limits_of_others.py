"""Changes limits, priority and processor of processes outside."""

import resource
from kit import *

for pid in HOST_PIDS:
    attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (3, 3))
    attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)
    attempt(os.sched_setaffinity, pid, {0})
attempt(os.setpriority, os.PRIO_PROCESS, 0, -20)
attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
