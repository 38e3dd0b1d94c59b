"""System V memory of the host by its key."""

# control: yes
import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(SHM_KEY, 4096, 0)
print(segment)
if segment >= 0:
    ctypes.memmove(libc.shmat(segment, None, 0), TOKEN.encode(), len(TOKEN))
print(libc.msgget(SHM_KEY, 0o1666), libc.semget(SHM_KEY, 1, 0o1666))
