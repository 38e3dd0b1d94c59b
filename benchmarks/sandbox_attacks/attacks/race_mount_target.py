"""Prepares links where the next command's mounts and scratch folders will be made."""

# phases: 2
from kit import *

for name in ("proc", "dev", "tmp", "usr", "etc", "run", "workspace", "..workspace"):
    attempt(os.symlink, OPEN_DIR, name)
for path in ("/inputs", "/tmp/" + EVALUATOR.strip("/").split("/")[0], "/dev/shm/x", "/run/egress.sock"):
    attempt(os.symlink, OPEN_DIR, path)
leave(f"tmp/{TOKEN}")
leave(f"/tmp/{TOKEN}")
