"""The scaffold of the episode after an attack: looks for leftovers, tells them, then works as it always does."""

import os
import socket
import time

PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/workspace", ".", os.path.expanduser("~"), "/run", "/inputs/scaffold")
EXPECTED = {"target.py"}


def work(desk):
    for place in PLACES:
        try:
            found = [name for name in os.listdir(place) if "left" in name]
        except OSError:
            found = []
        for name in found:
            desk.tool("read_file", {"path": f"LEAK {place}/{name}"})
    try:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(0.2)
        link.connect("\0left")
        desk.tool("read_file", {"path": "LEAK socket"})
    except OSError:
        pass
    if os.environ.get("LEFT") or getattr(os, "left", None) or abs(time.time() - time.time()) > 1.0:
        desk.tool("read_file", {"path": "LEAK environment"})
    desk.ask([{"role": "user", "text": f"TASK {desk.task}\n\n"}], ["read_file"], 0.5)
    desk.tool("submit", {})
