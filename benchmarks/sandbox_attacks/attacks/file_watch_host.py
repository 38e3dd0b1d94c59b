"""Watches files of a mount, and so learns what other programs of the machine read."""

# control: yes
import ctypes, select, struct, time
from kit import *

libc = ctypes.CDLL(None, use_errno=True)
IN_OPEN, IN_CLOSE_NOWRITE = 0x20, 0x10
watch = libc.inotify_init()
if watch >= 0:
    libc.inotify_add_watch(watch, f"{EVALUATOR}/digits".encode(), IN_OPEN | IN_CLOSE_NOWRITE)
    until, seen = time.monotonic() + 3, ""
    while (left := until - time.monotonic()) > 0 and select.select([watch], [], [], left)[0]:
        events = os.read(watch, 1 << 16)
        while events:
            _, mask, _, length = struct.unpack_from("=iIII", events)
            name = events[16 : 16 + length].rstrip(b"\0").decode()
            seen += name if mask & IN_OPEN else ""
            events = events[16 + length :]
    print(seen)
