"""Hides what it wrote in folders that nobody may read, not even their owner."""

from kit import *

block = os.urandom(1 << 20)
for number in range(40):
    os.mkdir(f"d{number}")
    for part in range(2):
        with open(f"d{number}/{part}", "wb") as file:
            for _ in range(32):
                file.write(block)
    os.chmod(f"d{number}/0", 0)
    os.chmod(f"d{number}", 0)
