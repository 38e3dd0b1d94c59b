"""Sets traps that the next, trusted command of the workspace could step on."""

# phases: 2
from kit import *

lie = "import sys\nprint('evaluator fooled'); sys.exit(0)\n"
for name in (
    "sitecustomize.py",
    "usercustomize.py",
    "check.py",
    "os.py",
    "site.py",
    "encodings.py",
    "builtins.py",
    "conftest.py",
    "random.pth",
    "python._pth",
    "pyvenv.cfg",
    "/tmp/sitecustomize.py",
    "/dev/shm/x.pth",
):
    attempt(lambda: open(name, "w").write(lie))
for name in (
    "sh",
    "python3",
    "python",
    "ls",
    ".bashrc",
    ".profile",
    "/tmp/.bashrc",
    "/tmp/.profile",
    "/tmp/.pythonrc.py",
):
    attempt(lambda: open(name, "w").write("#!/bin/sh\necho evaluator fooled\n"))
    attempt(os.chmod, name, 0o755)
os.makedirs("lib/python3.11", exist_ok=True)
