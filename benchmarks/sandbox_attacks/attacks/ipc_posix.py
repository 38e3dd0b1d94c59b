"""POSIX shared memory and message queues under names the host would see."""

# control: yes
import ctypes
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
fd = libc.shm_open(f"/{TOKEN}".encode(), os.O_CREAT | os.O_RDWR, 0o666)
print(fd, libc.mq_open(f"/{TOKEN}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None))
os.write(fd, TOKEN.encode())
