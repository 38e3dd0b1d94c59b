"""Background processes of one LATHE_HOME, each with a file `<name>.json` that says which process it is.

A process is known by pid and start time, so a stale file never makes us stop somebody else's process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from contracts.errors import EnvironmentFault

_STOP_GRACE_S = 40.0


@dataclass(frozen=True, kw_only=True)
class Service:
    """A started background process. `port` is 0 when it listens nowhere."""

    name: str
    pid: int
    started_at: float  # as the kernel says, seconds
    port: int = 0


class Services:
    """The pid files in `folder`. Logs lie beside them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def running(self, name: str) -> Service | None:
        """The live process of that name; a stale file is removed."""
        path = self._file(name)
        try:
            service = Service(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        if _process(service) is None:
            path.unlink(missing_ok=True)
            return None
        return service

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str], *, port: int = 0) -> Service:
        """Start it detached from this terminal, unless it runs."""
        if found := self.running(name):
            return found
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                list(command),
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        service = Service(name=name, pid=process.pid, started_at=psutil.Process(process.pid).create_time(), port=port)
        draft = self._file(name).with_suffix(".new")
        draft.write_text(json.dumps(dataclasses.asdict(service)))
        draft.replace(self._file(name))
        return service

    def wait_until(self, service: Service, ready: Callable[[], bool], timeout_s: float) -> None:
        """Raises EnvironmentFault when it ends, or is not `ready` in time."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            process = _process(service)
            if process is None or process.status() == psutil.STATUS_ZOMBIE or time.monotonic() > deadline:
                how = "did not get ready" if process else "ended"
                raise EnvironmentFault(
                    f"the {service.name} {how}{self._last_words(service)}", remedy=self._see(service)
                )
            time.sleep(0.1)

    def stop(self, name: str) -> bool:
        """Ask it to end, then kill it; False when it did not run."""
        service = self.running(name)
        process = _process(service) if service else None
        if process is None:
            return False
        family = [process, *process.children(recursive=True)]
        process.terminate()
        psutil.wait_procs([process], timeout=_STOP_GRACE_S)
        for left in psutil.wait_procs(family, timeout=0)[1]:
            left.kill()
        psutil.wait_procs(family, timeout=5)
        self._file(name).unlink(missing_ok=True)
        return True

    def log(self, name: str) -> Path:
        """Where the process writes."""
        return self._folder / f"{name}.log"

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _see(self, service: Service) -> str:
        return f"read {self.log(service.name)}, then run: lathe doctor"

    def _last_words(self, service: Service) -> str:
        lines = self.log(service.name).read_text(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def _process(service: Service) -> psutil.Process | None:
    try:
        process = psutil.Process(service.pid)
        same = abs(process.create_time() - service.started_at) < 1.0
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
