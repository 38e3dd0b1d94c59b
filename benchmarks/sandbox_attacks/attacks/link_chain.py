"""A chain of links each of which stays inside, if ".." were only words."""

from kit import *

os.makedirs("d1/d2/d3")
os.symlink("../../..", "d1/d2/d3/up")
os.symlink("d1/d2/d3/up", "top")
for depth in range(1, 12):
    os.symlink("d1/d2/d3/up/" + "../" * depth + SECRET_FILE.lstrip("/"), f"secret-{depth}")
    os.symlink("top/" + "../" * depth + "etc/shadow", f"shadow-{depth}")
    os.symlink(f"secret-{depth}", f"again-{depth}")
os.symlink("later/secret", "early")
os.symlink(os.path.relpath(os.path.dirname(SECRET_FILE), "/workspace"), "later")
