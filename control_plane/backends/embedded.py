"""TrainerBackend of our own trainer: one Ray task for each launch, which runs the training as a child process.

Ray starts with the first launch (or `warm_up`), on loopback only and with token authentication. Whatever kills a
worker or a node also kills its trainings; submitting the launch again goes on in the same segment.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

from contracts.backend import Launch, Outcome
from contracts.errors import BackendFailure
from control_plane.backends.ray_connection import RERUN, RayConnection, RayTask
from control_plane.backends.segment import is_running, request_stop, run_segment, withdraw_stop

_RELEASE_WAIT_S = 10.0


class EmbeddedBackend:
    """Runs at most `num_cpus` background launches at the same time; further ones wait in Ray's queue. Thread-safe."""

    name = "embedded"

    def __init__(self, *, num_cpus: int, ray_address: str, cancel_grace_s: float) -> None:
        self._ray = RayConnection(num_cpus=num_cpus, address=ray_address)
        self._cancel_grace_s = cancel_grace_s
        self._launches: dict[tuple[str, int], Launch] = {}
        self._tasks: dict[tuple[str, int], RayTask] = {}
        self._lock = threading.Lock()

    def warm_up(self) -> Future[None]:
        """Start Ray in the background, so that the first launch need not wait. Its result may be EnvironmentFault."""
        return self._ray.start()

    def submit(self, launch: Launch) -> None:
        """Start or continue the segment unless it is running here. Raises EnvironmentFault when Ray cannot start."""
        key = (launch.run_id, launch.segment)
        with self._lock:
            if key in self._tasks and not self._ray.is_done(self._tasks[key]):
                return
            withdraw_stop(launch)
            self._launches[key] = launch
            self._tasks[key] = self._ray.submit(run_segment, launch, cancel_grace_s=self._cancel_grace_s)

    def poll(self, run_id: str, segment: int) -> Outcome | None:
        """The outcome, or None while it runs. Raises BackendFailure when it was never submitted here."""
        with self._lock:
            task, launch = self._tasks.get((run_id, segment)), self._launches.get((run_id, segment))
        if task is None or launch is None:
            raise BackendFailure(f"run {run_id}, segment {segment} was not started here", remedy=RERUN)
        return self._ray.result(task) if self._ray.is_done(task) else None

    def cancel(self, run_id: str, segment: int) -> None:
        """Ask the training to write a checkpoint and end; after a grace time it is killed."""
        with self._lock:
            launch = self._launches.get((run_id, segment))
        if launch is not None:
            request_stop(launch)

    def close(self) -> None:
        """Kill what still runs (each goes on when submitted again) and stop Ray."""
        self._ray.close()
        deadline = time.monotonic() + _RELEASE_WAIT_S
        while any(is_running(each.folder, each.segment) for each in self._launches.values()):
            if time.monotonic() > deadline:
                raise BackendFailure("a training did not end", remedy="look for processes named trainer.child")
            time.sleep(0.05)
