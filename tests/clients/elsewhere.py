"""A real API process that can be killed and started again, and trainings that log to it as another project would."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from context_store import Store
from control_plane.services.ports import choose_port

ROOT = Path(__file__).parents[2]
SEND_SPOOL = "import runpy, sys; sys.argv = ['lathe_log']; runpy.run_module('lathe_log', run_name='__main__')"
CLIENTS = [ROOT / "clients" / name for name in ("lathe_log", "lathe_read")]
sys.path[:0] = [str(folder) for folder in CLIENTS]


class ApiProcess:
    """`python -m control_plane.services.api` on one port."""

    def __init__(self, database_url: str, token: str, home: Path) -> None:
        self.token = token
        self.port = choose_port(0, what="API", variable="LATHE_API_PORT")
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = os.environ | {"LATHE_DATABASE_URL": database_url, "LATHE_HOME": str(home)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "control_plane.services.api", str(self.port)]
        self._process = subprocess.Popen(command, env=self._environment, cwd=ROOT)
        until(self._answers, 60)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/api/v1/health", timeout=5)
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True


class Trainings:
    """Runs pieces of training code as processes of their own, which log to `api` through one spool folder."""

    def __init__(self, api: ApiProcess, folder: Path) -> None:
        self.spool = folder / "spool"
        self._folder = folder
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(CLIENTS[0]),
            "LATHE_API_URL": api.url,
            "LATHE_TOKEN": api.token,
            "LATHE_SPOOL": str(self.spool),
        }
        self._started: list[subprocess.Popen[str]] = []

    def start(
        self, code: str, python: str = sys.executable, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [python, "-c", "import lathe_log\n" + code],
            env={**self._environment, **(more or {})},
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, code: str, python: str = sys.executable, more: Mapping[str, str] | None = None) -> str:
        """Standard output of one that must end well."""
        out, err = self.start(code, python, more).communicate(timeout=60)
        assert self._started[-1].returncode == 0, err
        return out

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait for what must happen soon."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def points(store: Store, run: str, name: str = "loss") -> list[tuple[int, int, float]]:
    """(segment, step, value), every one that is stored."""
    data = store.series.read(run, name, view="full")
    return sorted(zip(data.segments.tolist(), data.steps.tolist(), data.values.tolist(), strict=True))
