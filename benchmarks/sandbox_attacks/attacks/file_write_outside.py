"""Writes where everybody may write outside."""

# control: yes
from kit import *

leave(f"{OPEN_DIR}/{TOKEN}")
