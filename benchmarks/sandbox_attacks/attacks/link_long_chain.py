"""A chain of more links than a reader can follow, each of which stays inside."""

from kit import *

for number in range(1500):
    os.symlink(f"link-{number + 1}", f"link-{number}")
os.symlink("../" * 8 + SECRET_FILE.lstrip("/"), "link-1500")
