"""Reads a secret by its path outside."""

# control: yes
from kit import *

show(SECRET_FILE)
show(ROOT_FILE)
show(SIBLING_FILE)
