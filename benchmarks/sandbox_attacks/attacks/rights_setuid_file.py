"""Makes set-id programs, here and for the host, and runs those of the system."""

import shutil, subprocess
from kit import *

for folder in (".", "/tmp", "/dev/shm"):
    shutil.copy("/bin/dash", f"{folder}/suid")
    attempt(os.chmod, f"{folder}/suid", 0o6755)
    attempt(
        subprocess.run,
        [f"{folder}/suid", "-p", "-c", f"id; echo {TOKEN} > {OPEN_DIR}/{TOKEN}"],
    )
attempt(os.chown, "suid", 0, 0)
attempt(os.chmod, "suid", 0o6755)
for program in (
    ["su", "-c", "id"],
    ["mount", "--bind", "/", "/tmp"],
    ["newgrp"],
    ["pkexec", "id"],
    ["sudo", "-n", "id"],
    ["passwd", "-S"],
    ["chsh", "-l"],
):
    attempt(lambda: subprocess.run(program, stdin=subprocess.DEVNULL, timeout=2))
