"""Stacks: raises the limit of the stack and recurses, in many threads."""

import resource, threading
from kit import *

attempt(resource.setrlimit, resource.RLIMIT_STACK, (1 << 32, resource.RLIM_INFINITY))
import subprocess, sys

code = "import sys, threading\nsys.setrecursionlimit(10**8)\nthreading.stack_size(1 << 30)\ndef f(n):\n    return f(n + 1)\nfor _ in range(4):\n    threading.Thread(target=f, args=(0,)).start()\n"
for _ in range(6):
    attempt(lambda: subprocess.Popen([sys.executable, "-S", "-c", code]))
