"""TrainerBackend without Ray: a watcher process for each launch, on this machine.

For machines on which Ray cannot start (`LATHE_BACKEND=local`). It does not queue: whoever submits decides how many
run at once. The watchers end with the thread that submitted them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from contracts.backend import Launch, Outcome
from contracts.errors import BackendFailure
from control_plane.backends.segment import died, request_stop, withdraw_stop

_GUARD = str(Path(__file__).with_name("guard.py"))


class LocalBackend:
    """Thread-safe."""

    name = "local"

    def __init__(self, *, cancel_grace_s: float) -> None:
        self._cancel_grace_s = cancel_grace_s
        self._launches: dict[tuple[str, int], Launch] = {}
        self._watchers: dict[tuple[str, int], subprocess.Popen[str]] = {}
        self._outcomes: dict[tuple[str, int], Outcome] = {}
        self._lock = threading.Lock()

    def submit(self, launch: Launch) -> None:
        """Start or continue the segment unless it is running here."""
        key = (launch.run_id, launch.segment)
        with self._lock:
            if key in self._watchers and key not in self._outcomes and self._watchers[key].poll() is None:
                return
            withdraw_stop(launch)
            self._outcomes.pop(key, None)
            self._launches[key] = launch
            self._watchers[key] = self._start(launch)

    def poll(self, run_id: str, segment: int) -> Outcome | None:
        """The outcome, or None while it runs. Raises BackendFailure when it was never submitted here."""
        key = (run_id, segment)
        with self._lock:
            if key not in self._watchers:
                raise BackendFailure(f"run {run_id}, segment {segment} was not started here", remedy="start it again")
            if key not in self._outcomes and self._watchers[key].poll() is not None:
                self._outcomes[key] = _read(self._watchers[key], self._launches[key])
            return self._outcomes.get(key)

    def cancel(self, run_id: str, segment: int) -> None:
        """Ask the training to write a checkpoint and end; after a grace time it is killed."""
        with self._lock:
            launch = self._launches.get((run_id, segment))
        if launch is not None:
            request_stop(launch)

    def close(self) -> None:
        """Kill what still runs; each goes on when submitted again."""
        with self._lock:
            for key in self._watchers.keys() - self._outcomes.keys():
                self._watchers[key].kill()
                self._outcomes[key] = _read(self._watchers[key], self._launches[key])

    def _start(self, launch: Launch) -> subprocess.Popen[str]:
        command = [sys.executable, "-I", _GUARD, str(os.getpid())]
        command += [sys.executable, "-m", "control_plane.backends.watch", str(self._cancel_grace_s)]
        watcher = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C in a terminal reaches Lathe only
        )
        assert watcher.stdin is not None
        watcher.stdin.write(launch.to_json())
        watcher.stdin.close()
        watcher.stdin = None
        return watcher


def _read(watcher: subprocess.Popen[str], launch: Launch) -> Outcome:
    said, _ = watcher.communicate()
    if not said:
        remedy = "start it again: it goes on from its newest checkpoint, nothing stored is lost"
        return died(launch, f"the watcher of run {launch.run_id} was killed", remedy)
    fields: Mapping[str, object] = json.loads(said)
    return Outcome(**fields)  # type: ignore[arg-type]
