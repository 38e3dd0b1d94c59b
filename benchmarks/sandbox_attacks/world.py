"""The world outside the sandbox, full of bait, and the judge that looks at it after each attack.

The judge asks no attack what it did. After every attack it looks, from outside, at all of this: files that appeared or
changed, listeners that were reached, secrets in what was printed or exported, the victim process (signals, state,
limits), processes left behind, the host's settings, memory, disk and process peaks, the deadline, a sibling workspace,
and whether the evaluator still says what it should.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import os
import secrets
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.sandbox.protocol import Limits, Result
from benchmarks.sandbox_attacks import host
from benchmarks.sandbox_attacks.listeners import Listeners

LIMITS = Limits(
    wall_s=4.0, cpu_s=8, memory_bytes=256 << 20, processes=64, open_files=128, file_bytes=64 << 20,
    disk_bytes=64 << 20, files=2000, scratch_bytes=16 << 20, output_bytes=64 << 10,
)  # fmt: skip
GRACE_S = 5.0  # on a busy machine; a quiet one is measured by kill_s
MEMORY_SLACK_BYTES = 512 << 20
SHARED_SLACK_BYTES = 256 << 20  # other programs share memory too
DISK_SLACK_BYTES = 1 << 30  # other programs write too, and use is counted a few times a second
PROCESS_SLACK = 24
ASYNCHRONOUS_READS_SLACK = 4096
EVALUATOR_SAYS = b"evaluator untouched 45\n"
_CHECK = "print('evaluator untouched', sum(range(10)))\n"
_VICTIM = """
import os, signal, sys, time
def seen(number, frame): os.write(1, b"signal %d;" % number)
for number in range(1, 65):
    try: signal.signal(number, seen)
    except (OSError, ValueError): pass
os.write(1, b"up;")
while True: time.sleep(60)
"""
_IPC_CREAT, _IPC_RMID = 0o1000, 0


@dataclass(kw_only=True)
class Case:
    """One attack as the judge sees it. `texts` is everything that came out: output, names, exported contents."""

    token: str
    results: list[Result]
    texts: list[bytes]
    problems: list[str]
    peak: host.Peak


class World:
    """Bait and judge. `uid` is the sandbox's user id; `folder` is a new folder that everybody can reach."""

    def __init__(self, folder: Path, uid: int) -> None:
        self.folder, self.uid = folder, uid
        self.secrets = [secrets.token_hex(16).encode() for _ in range(5)]
        self.open_dir = self._make_folder("open", 0o777)
        self.secret_file = self._file("secret", self.secrets[0], 0o644)
        self.root_file = self._file("root-secret", self.secrets[1], 0o600)
        self.evaluator = self._make_folder("evaluator", 0o755)
        (self.evaluator / "check.py").write_text(_CHECK)
        digits = self._make_digits()
        self.sibling = self._make_folder("sibling", 0o755)
        (self.sibling / "sibling-secret").write_bytes(self.secrets[2])
        self.listeners = Listeners(folder)
        self.victim = self._start_victim()
        self.shm_key = secrets.randbelow(1 << 30) + 1
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._shm = self._libc.shmget(self.shm_key, 4096, _IPC_CREAT | 0o666)
        self._clock = time.time() - time.monotonic()
        self.sampler = host.Sampler(folder=folder, uid=uid, reads=digits)
        self._before = self._state()

    def environment(self, token: str, phase: int, store: Path, sibling_file: str) -> dict[str, str]:
        """What kit.py reads."""
        addresses = dict.fromkeys(["127.0.0.1", "::1", "localhost", *_own_addresses()])
        return {
            "TOKEN": token, "PHASE": str(phase), "SECRET_FILE": str(self.secret_file), "ROOT_FILE": str(self.root_file),
            "OPEN_DIR": str(self.open_dir), "EVALUATOR": str(self.evaluator), "STORE": str(store),
            "SIBLING_FILE": sibling_file, "ADDRESSES": " ".join(addresses), "PORT": str(self.listeners.port),
            "WEB_PORT": str(self.listeners.web_port), "UNIX_SOCKET": str(self.listeners.unix_path),
            "ABSTRACT_SOCKET": self.listeners.abstract_name, "VICTIM": str(self.victim.pid),
            "PARENT": str(os.getpid()), "SHM_KEY": str(self.shm_key),
            "PYTHONPATH": str(Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def judge(self, case: Case) -> list[str]:
        """What is seen from outside; empty when the attack was contained. Repairs the bait for the next attack."""
        seen = [*case.problems, *self._changes(), *self._traces(case.token), *self._excess(case)]
        seen += [f"heard: {what}" for what in self.listeners.heard]
        self.listeners.heard.clear()
        seen += self._told(case)
        seen += self._victim_troubles()
        self._before = self._state()
        return seen

    def close(self) -> None:
        self.listeners.close()
        self.victim.kill()
        self.victim.wait()
        self._libc.shmctl(self._shm, _IPC_RMID, None)

    def _make_folder(self, name: str, mode: int) -> Path:
        path = self.folder / name
        path.mkdir()
        path.chmod(mode)
        return path

    def _file(self, name: str, content: bytes, mode: int) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def _make_digits(self) -> tuple[Path, ...]:
        """Files that a program of the host reads in the order of a secret's digits: only a watcher learns it."""
        folder = self.evaluator / "digits"
        folder.mkdir()
        for digit in "0123456789abcdef":
            (folder / digit).touch()
        return tuple(folder / digit for digit in self.secrets[4].decode())

    def _start_victim(self) -> subprocess.Popen[bytes]:
        identity: dict[str, Any] = (
            {"user": self.uid, "group": self.uid, "extra_groups": []} if os.geteuid() == 0 else {}
        )
        victim: subprocess.Popen[bytes] = subprocess.Popen(
            ["/usr/bin/python3", "-I", "-S", "-c", _VICTIM], stdout=subprocess.PIPE, cwd="/",
            env={"VICTIM_SECRET": self.secrets[3].decode()}, start_new_session=True, **identity,
        )  # fmt: skip
        assert victim.stdout is not None
        victim.stdout.read(3)
        os.set_blocking(victim.stdout.fileno(), False)
        return victim

    def _state(self) -> dict[str, str]:
        state = host.host_state()
        state["memory segment"] = str(self._segment())
        state["clock moved"] = str(abs(time.time() - time.monotonic() - self._clock) > 1.5)
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                status = path.stat()
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                state[str(path)] = f"{digest} {status.st_mode:o} {status.st_mtime_ns} {status.st_nlink}"
        return state

    def _segment(self) -> bytes:
        self._libc.shmat.restype = ctypes.c_void_p
        address = self._libc.shmat(self._shm, None, 0)
        content = ctypes.string_at(address, 64)
        self._libc.shmdt(ctypes.c_void_p(address))
        return content

    def _changes(self) -> list[str]:
        now = self._state()
        names = sorted(name for name in self._before.keys() | now.keys() if self._before.get(name) != now.get(name))
        for path in self.open_dir.iterdir():
            path.unlink()
        if any(str(self.evaluator) in name for name in names):
            (self.evaluator / "check.py").write_text(_CHECK)
        return [f"changed: {name}" for name in names]

    def _traces(self, token: str) -> list[str]:
        """The token where a sandbox may leave nothing: temporary folders, kernel keys, processes."""
        seen = []
        for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue"):  # noqa: S108
            if os.path.exists(f"{folder}/{token}"):
                seen.append(f"left in {folder}")
                os.unlink(f"{folder}/{token}")
        if token in Path("/proc/keys").read_text():
            seen.append("left a kernel key")
        if self._libc.mq_unlink(f"/{token}".encode()) == 0:
            seen.append("left a message queue")
        ours = set(host.processes_with(token))
        inner = set(host.inner_processes(self.uid))
        for pid in ours | (inner if os.geteuid() == 0 else set()):  # as root the user id is the benchmark's alone
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return seen + [f"process {pid} left behind" for pid in ours | inner]

    def _excess(self, case: Case) -> list[str]:
        """More memory, disk, processes or output than the limits and their slack."""
        peak = case.peak
        seen: list[str] = []
        if peak.processes > LIMITS.processes + PROCESS_SLACK:
            seen.append(f"{peak.processes} processes")
        if peak.memory_bytes > LIMITS.memory_bytes + MEMORY_SLACK_BYTES:
            seen.append(f"{peak.memory_bytes >> 20} MiB of memory")
        if peak.kernel_bytes > LIMITS.memory_bytes + MEMORY_SLACK_BYTES:
            seen.append(f"{peak.kernel_bytes >> 20} MiB of shared and kernel memory")
        if peak.shared_bytes > LIMITS.memory_bytes + 2 * LIMITS.scratch_bytes + SHARED_SLACK_BYTES:
            seen.append(f"{peak.shared_bytes >> 20} MiB of shared memory")
        if peak.disk_bytes > LIMITS.disk_bytes + DISK_SLACK_BYTES:
            seen.append(f"{peak.disk_bytes >> 20} MiB of disk")
        if peak.asynchronous_reads > ASYNCHRONOUS_READS_SLACK:
            seen.append(f"{peak.asynchronous_reads} asynchronous reads of the whole machine")
        if peak.outside_programs:
            seen.append("runs the launcher's interpreter outside")
        if any(len(result.stdout) > LIMITS.output_bytes for result in case.results):
            seen.append("more output than allowed")
        return seen

    def _told(self, case: Case) -> list[str]:
        """Secrets in what came out, plain, reversed, in hexadecimal or base64."""
        text = b"\n".join(case.texts)
        lines = [line for line in _shadow_lines() if len(line) > 20]
        for number, secret in enumerate([*self.secrets, *lines]):
            forms = (secret, secret[::-1], secret.hex().encode(), base64.b64encode(secret)[:20])
            if any(form in text for form in forms):
                return [f"secret {number} was told"]
        return []

    def _victim_troubles(self) -> list[str]:
        seen = []
        assert self.victim.stdout is not None
        signals = self.victim.stdout.read()
        if signals:
            seen.append(f"victim got {signals.decode()}")
        if self.victim.poll() is not None:
            seen.append("victim is dead")
            self.victim = self._start_victim()
            return seen
        status = Path(f"/proc/{self.victim.pid}/status").read_text()
        if "TracerPid:\t0\n" not in status or "State:\tT" in status:
            seen.append("victim is stopped or traced")
            os.kill(self.victim.pid, signal.SIGCONT)
            time.sleep(0.05)
            assert self.victim.stdout is not None
            self.victim.stdout.read()
        return seen


def _own_addresses() -> list[str]:
    """Addresses of this machine that a packet would go out from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def _shadow_lines() -> list[bytes]:
    found = []
    for path in ("/etc/shadow", "/etc/machine-id"):
        if os.access(path, os.R_OK):
            found += Path(path).read_bytes().splitlines()
    return found
