"""Services that would act for us outside: D-Bus, systemd, Docker, cron, X, SSH agents."""

import glob, socket, subprocess
from kit import *

for path in (
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/notify",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/snapd.socket",
    "/run/acpid.socket",
    "/tmp/.X11-unix/X0",
    *glob.glob("/tmp/ssh-*/*"),
    *glob.glob("/run/user/*/bus"),
    *glob.glob("/tmp/lt*/.s.PGSQL*"),
):
    attempt(lambda: socket.socket(socket.AF_UNIX).connect(path))
for command in (["systemd-run", "touch", f"{OPEN_DIR}/{TOKEN}"], ["at", "now"], ["crontab", "-"]):
    attempt(lambda: subprocess.run(command, input=f"* * * * * touch {OPEN_DIR}/{TOKEN}\n".encode(), timeout=1))
