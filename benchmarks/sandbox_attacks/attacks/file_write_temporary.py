"""Leaves a file in every temporary folder."""

# control: yes
from kit import *

for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "/dev/mqueue", "/var/lock"):
    leave(f"{folder}/{TOKEN}")
