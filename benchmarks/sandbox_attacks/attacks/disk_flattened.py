"""Little on disk, much for whoever copies it: hard links and holes, and so many layers that they are merged."""

# phases: 36
import shutil
from kit import *

if PHASE == 1:
    block = os.urandom(1 << 20)
    with open("full", "wb") as file:
        for _ in range(40):
            file.write(block)
    for number in range(30):
        os.link("full", f"linked-{number}")
        with open(f"hole-{number}", "wb") as file:
            file.truncate(60 << 20)
else:
    open(f"phase-{PHASE}", "w").write("x")
