"""Leaves something for the next episode: files, daemons, sockets, changed modules, time."""

import os
import signal
import socket
import subprocess
import sys
import time

VARIANTS = [
    "/tmp/left",
    "/dev/shm/left",
    "/workspace/left",
    "/workspace/.left",
    "/workspace/left folder",
    "/tmp/closed left",
    "/var/tmp/left",
    "~/left",
    "/inputs/scaffold/left",
    "/inputs/lathe/left",
    "/inputs/site/left",
    "/run/left",
    "fork",
    "double fork",
    "session",
    "socket",
    "ignore term",
    "bomb",
    "patch os",
    "patch time",
    "bytecode",
    "profile",
    "sleep",
    "spin",
    "mkfifo",
    "immutable",
    "many files",
    "deep folders",
    "mount",
    "clock",
    "hostname",
    "at exit",
    "cron",
    "stopped child",
]


def attack(desk, variant):
    if "/" in variant:
        leave(os.path.expanduser(variant))
    elif variant in ("fork", "double fork", "session", "ignore term", "stopped child"):
        daemon(variant)
    elif variant == "socket":
        if os.fork() == 0:
            link = socket.socket(socket.AF_UNIX)
            link.bind("\0left")
            link.listen()
            time.sleep(30)
    elif variant == "bomb":
        for _ in range(500):
            if os.fork() == 0:
                time.sleep(30)
    elif variant == "patch os":
        os.left = True
        os.environ["LEFT"] = "1"
    elif variant == "patch time":
        time.time = lambda: 0.0
        time.monotonic = lambda: 0.0
    elif variant == "bytecode":
        for place in sys.path:
            subprocess.run([sys.executable, "-m", "compileall", "-q", place], check=False, timeout=5)
    elif variant == "profile":
        open(os.path.expanduser("~/.profile"), "w").write("touch /tmp/left")
    else:
        more(variant)


def more(variant):
    if variant == "sleep":
        time.sleep(60)
    elif variant == "spin":
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass
    elif variant == "mkfifo":
        os.mkfifo("target.py.left")
        os.remove("target.py")
        os.mkfifo("target.py")
    elif variant == "immutable":
        os.mkdir("left")
        open("left/left", "w").write("x")
        os.chmod("left", 0)
    elif variant == "many files":
        for number in range(3000):
            open(f"left{number}", "w").close()
    elif variant == "deep folders":
        for _ in range(200):
            os.mkdir("left")
            os.chdir("left")
    elif variant == "mount":
        subprocess.run(["mount", "-t", "tmpfs", "none", "/tmp"], check=False)
        leave("/tmp/left")
    elif variant == "clock":
        time.clock_settime(time.CLOCK_REALTIME, 0)
    elif variant == "hostname":
        socket.sethostname("left")
    elif variant == "at exit":
        import atexit

        atexit.register(lambda: leave("/tmp/left"))
        sys.exit()
    elif variant == "cron":
        leave("/var/spool/cron/left")


def leave(path):
    if "folder" in path:
        os.mkdir(path)
        path += "/left"
    with open(path, "w") as file:
        file.write("left")
    if "closed" in path:
        os.chmod(path, 0)


def daemon(how):
    if os.fork() == 0:
        if how != "fork":
            os.setsid()
        if how == "double fork" and os.fork():
            os._exit(0)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if how == "stopped child":
            os.kill(os.getpid(), signal.SIGSTOP)
        for _ in range(300):
            try:
                leave("/tmp/left")
                leave("/workspace/left")
            except OSError:
                pass
            time.sleep(0.02)
        os._exit(0)
