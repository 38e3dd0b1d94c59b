"""Sets the clock, the host name and the domain."""

import ctypes, struct, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
attempt(time.clock_settime, time.CLOCK_REALTIME, time.time() + 5)
now = ctypes.create_string_buffer(struct.pack("=qq", int(time.time()) + 5, 0))
print(
    libc.settimeofday(now, None),
    libc.clock_settime(0, now),
    libc.sethostname(TOKEN.encode(), 8),
    libc.setdomainname(TOKEN.encode(), 8),
)
os.system("date -s '+5 seconds' 2>&1; hostname x 2>&1")
