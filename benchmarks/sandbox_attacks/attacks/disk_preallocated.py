"""Sets disk space aside, many files in an instant, in every way there is."""

import ctypes, fcntl, struct, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
SIZE = 63 << 20
files = [os.open(f"file-{number}", os.O_CREAT | os.O_RDWR) for number in range(40)]
for file in files:
    libc.fallocate(file, 0, 0, SIZE)
for file in files:
    space = struct.pack("=hhiqqiI16x", 0, 0, 0, 0, SIZE, 0, 0)
    for command in (0x40305828, 0x4030582A, 0x40305839):
        attempt(fcntl.ioctl, file, command, space)
time.sleep(0.3)
