"""As many empty files as the disk has room for."""

from kit import *

for folder in range(200):
    os.mkdir(f"d{folder}")
    for number in range(2000):
        os.close(os.open(f"d{folder}/{number}", os.O_CREAT))
