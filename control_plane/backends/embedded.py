"""TrainerBackend of our own trainer: one Ray task for each launch, which runs the training as a child process.

Ray starts with the first launch (or `warm_up`), on loopback only and with token authentication. Whatever kills a
worker also kills its training; submitting the launch again goes on in the same segment.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from contracts.backend import Launch, Outcome
from contracts.errors import BackendFailure, EnvironmentFault, LatheError
from control_plane.backends.segment import died, is_running, request_stop, run_segment, withdraw_stop

if TYPE_CHECKING:
    from ray import ObjectRef

_OBJECT_STORE_BYTES = 80 * 1024 * 1024  # the least Ray takes: only outcomes travel through it
_PREFIX = "ltray"  # of temporary folders; the process id follows
_RELEASE_WAIT_S = 10.0
_CONNECT_S = 5.0
_START_WAIT_S = 120.0  # a loaded machine needs more than Ray's own limits
_CLOSE_WAIT_S = 15.0
_RERUN = "start it again: it goes on from its newest checkpoint, nothing stored is lost"


class EmbeddedBackend:
    """Runs at most `num_cpus` background launches at the same time; further ones wait in Ray's queue. Thread-safe."""

    name = "embedded"

    def __init__(self, *, num_cpus: int, ray_address: str, cancel_grace_s: float) -> None:
        self._ray = RayConnection(num_cpus=num_cpus, address=ray_address)
        self._cancel_grace_s = cancel_grace_s
        self._launches: dict[tuple[str, int], Launch] = {}
        self._tasks: dict[tuple[str, int], ObjectRef[Outcome]] = {}
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
            raise BackendFailure(f"run {run_id}, segment {segment} was not started here", remedy=_RERUN)
        return self._ray.result(task, launch) if self._ray.is_done(task) else None

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


class RayConnection:
    """Ray of this process, started on first use.

    Linux kills Ray's processes when the *thread* that started them ends, so one thread of our own starts Ray and
    lives until `close`.
    """

    def __init__(self, *, num_cpus: int, address: str) -> None:
        self._num_cpus = num_cpus
        self._address = address
        self._folder: Path | None = None  # of a Ray started here; private, with a short name: sockets lie below it
        self._starting: Future[None] | None = None
        self._closing = threading.Event()
        self._thread = threading.current_thread()  # until `start` makes its own
        self._lock = threading.Lock()

    def start(self) -> Future[None]:
        """Begin to start Ray unless somebody did; a start that failed is tried again."""
        with self._lock:
            if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
                self._starting = Future()
                threading.Thread(target=self._live, args=(self._starting,), name="ray", daemon=True).start()
            return self._starting

    def submit(self, function: Callable[..., Outcome], launch: Launch, **options: float) -> ObjectRef[Outcome]:
        """Queue `function(launch, **options)`, never repeated by Ray itself. Only a background one waits for a CPU."""
        self.start().result()
        import ray

        remote = ray.remote(num_cpus=1 if launch.background else 0, max_retries=0)(function)
        task: ObjectRef[Outcome] = remote.remote(launch, **options)
        return task

    def is_done(self, task: ObjectRef[Outcome]) -> bool:
        """True when the result, or the failure, is there."""
        import ray

        return bool(ray.wait([task], timeout=0)[0])

    def result(self, task: ObjectRef[Outcome], launch: Launch) -> Outcome:
        """The outcome of a finished task; a lost worker gives one with reason `died`."""
        import ray

        try:
            outcome: Outcome = ray.get(task)
            return outcome
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, LatheError):
                return died(launch, cause.message, cause.remedy)
            raise
        except ray.exceptions.OutOfMemoryError:
            return died(launch, "the machine ran out of memory and Ray stopped the training", _RERUN)
        except ray.exceptions.RayError as error:
            return died(launch, f"the Ray worker of run {launch.run_id} died ({type(error).__name__})", _RERUN)

    def close(self) -> None:
        """Stop Ray if it was started here. One that still starts after a while is left to end with this process."""
        with self._lock:
            starting, self._starting = self._starting, None
        if starting is None or wait([starting], timeout=_CLOSE_WAIT_S).not_done or starting.exception() is not None:
            return
        self._closing.set()
        self._thread.join()

    def _live(self, started: Future[None]) -> None:
        """The thread that starts Ray, keeps it alive and stops it."""
        self._thread = threading.current_thread()
        try:
            self._connect()
        except LatheError as error:
            started.set_exception(error)
            return
        started.set_result(None)
        self._closing.wait()
        self._disconnect()

    def _connect(self) -> None:
        if not self._address:
            _remove_leftovers()
            self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}_"))
        else:
            _require_listener(self._address)
        os.environ |= _environment(local=self._folder is not None)
        import ray

        give_up_at = time.monotonic() + _START_WAIT_S
        while True:
            try:
                self._init(ray)
                return
            except Exception as error:  # Ray raises many types here, all of them mean the same to the caller
                ray.shutdown()
                if self._folder is None or time.monotonic() > give_up_at:
                    raise _not_started(error, self._address) from error

    def _init(self, ray: Any) -> None:
        if self._folder is None:
            ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            self._start_local(ray, self._folder)

    def _start_local(self, ray: Any, folder: Path) -> None:
        ray.init(
            address="local",
            num_cpus=self._num_cpus,
            num_gpus=0,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
            _temp_dir=str(folder),
        )

    def _disconnect(self) -> None:
        import ray

        ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _not_started(error: Exception, address: str) -> EnvironmentFault:
    said = str(error).strip().splitlines() or [type(error).__name__]
    if address:
        return EnvironmentFault(f"Ray did not start: {said[0]}", remedy="check RAY_ADDRESS")
    return EnvironmentFault(
        f"Ray did not start within {_START_WAIT_S:.0f} s: {said[0]}",
        remedy="free memory, disk space or CPUs (lathe doctor looks), or set LATHE_BACKEND=local to work without Ray",
    )


@cache
def _token() -> str:
    """One per process: Ray remembers the first it sees."""
    return secrets.token_hex(32)


def _require_listener(address: str) -> None:
    """Raises EnvironmentFault when nothing listens at `host:port`; Ray itself would try for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():  # "auto"
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        raise EnvironmentFault(
            f"no Ray cluster answers at RAY_ADDRESS={address}: {error}",
            remedy="start the cluster, correct RAY_ADDRESS, or unset it to run Ray on this machine",
        ) from error


def _remove_leftovers() -> None:
    """Folders of Rays whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*_*"):
        number = folder.name.removeprefix(_PREFIX).partition("_")[0]
        if number.isdigit() and not psutil.pid_exists(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _environment(*, local: bool) -> dict[str, str]:
    """What Ray reads when it is imported. A cluster of the person brings its own token."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    quiet["RAY_DEDUP_LOGS_SKIP_REGEX"] = "."  # its notices would go to standard output; outcomes carry what matters
    if not local:
        return quiet
    return quiet | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": _token(),
        "RAY_NUM_REDIS_GET_RETRIES": f"{_START_WAIT_S:.0f}",  # one a second
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # the switch that makes Ray take 127.0.0.1 as its node address
    }
