"""Makes whiteouts by hand to hide what the base and the siblings hold."""

# phases: 2
import stat
from kit import *

for name in ("notes.txt", "data", "w1", "/usr/x", EVALUATOR + "/check.py"):
    attempt(os.mknod, name, stat.S_IFCHR | 0o666, os.makedev(0, 0))
attempt(os.rename, "w1", "notes.txt")
open(".wh.notes.txt", "w").close()
open(".wh..wh..opq", "w").close()
attempt(os.unlink, "notes.txt")
attempt(os.mkdir, "notes.txt")
