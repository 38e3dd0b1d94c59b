"""Replaces a folder by a link, so that whoever writes below it writes outside."""

# phases: 2
import shutil
from kit import *

if PHASE == 1:
    shutil.rmtree("data")
    os.symlink(OPEN_DIR, "data")
    os.symlink("/", "root")
    os.symlink(os.path.dirname(SECRET_FILE), "up")
else:
    leave(f"data/{TOKEN}")
    show("up/secret")
    show("root" + SECRET_FILE)
