"""Ray of this process: started on loopback, or reached at an address; connected again when its head went away.

Linux kills Ray's processes when the *thread* that started them ends, so one thread of our own starts Ray, looks
whether it is still there, and lives until `close`. A Ray client itself would end this process a minute after its head
is gone; a setting forbids that. What ran under the lost head counts as died: whoever submits it again waits, by the
segment's lock, until its old process is gone, and goes on from the newest checkpoint.
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
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import structlog

from contracts.backend import Launch, Outcome
from contracts.errors import EnvironmentFault, LatheError
from control_plane.backends.segment import died

if TYPE_CHECKING:
    from ray import ObjectRef

_log = structlog.get_logger(__name__)
_OBJECT_STORE_BYTES = 80 * 1024 * 1024  # the least Ray takes: only outcomes travel through it
_PREFIX = "ltray"  # of temporary folders; the process id follows
_CONNECT_S = 5.0
_START_WAIT_S = 120.0  # a loaded machine needs more than Ray's own limits
_CLOSE_WAIT_S = 15.0
_LOOK_S = 5.0  # how often it is looked whether Ray is still there
_ANSWER_S = 30.0  # a busy head may be slow
_MISSES = 2  # one alone may be chance, and to give up kills what runs
_AGAIN_S = 5.0  # between two attempts to reach a head that is away
_NEVER_S = 7 * 86400
RERUN = "start it again: it goes on from its newest checkpoint, nothing stored is lost"


@dataclass(kw_only=True)
class RayTask:
    """A launch that was handed over. `reference` None: Ray is away just now, and it begins when Ray is back."""

    launch: Launch
    function: Callable[..., Outcome]
    options: dict[str, float]
    reference: ObjectRef[Outcome] | None = None
    connection: int = field(default=0)  # under which it began


class RayConnection:
    """Starts Ray on first use. Thread-safe."""

    def __init__(self, *, num_cpus: int, address: str) -> None:
        self._num_cpus = num_cpus
        self._address = address
        self._folder: Path | None = None  # of a Ray started here; private, with a short name: sockets lie below it
        self._starting: Future[None] | None = None
        self._closing = threading.Event()
        self._thread = threading.current_thread()  # until `start` makes its own
        self._lock = threading.RLock()
        self._connection = 0  # counts the heads we were connected to
        self._is_there = False

    def start(self) -> Future[None]:
        """Begin to start Ray unless somebody did; a start that failed is tried again."""
        with self._lock:
            if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
                self._starting = Future()
                threading.Thread(target=self._live, args=(self._starting,), name="ray", daemon=True).start()
            return self._starting

    def submit(self, function: Callable[..., Outcome], launch: Launch, **options: float) -> RayTask:
        """Queue `function(launch, **options)`, never repeated by Ray itself. Only a background one waits for CPUs.

        Raises EnvironmentFault when Ray cannot be started; one that is away for a while is waited for by the task.
        """
        self.start().result()
        task = RayTask(launch=launch, function=function, options=options)
        with self._lock:
            if self._is_there:
                self._begin(task)
        return task

    def is_done(self, task: RayTask) -> bool:
        """True when the result, or the failure, is there. Never while Ray is away: then nobody knows."""
        import ray

        with self._lock:
            if not self._is_there:
                return False
            if task.reference is None:
                self._begin(task)
                return False
            return task.connection != self._connection or bool(ray.wait([task.reference], timeout=0)[0])

    def result(self, task: RayTask) -> Outcome:
        """The outcome of a finished task; a lost worker, node or head gives one with reason `died`."""
        import ray

        launch = task.launch
        with self._lock:
            if task.connection != self._connection or task.reference is None:
                return died(launch, f"the Ray head of run {launch.run_id} went away", RERUN)
        try:
            outcome: Outcome = ray.get(task.reference)
            return outcome
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, LatheError):
                return died(launch, cause.message, cause.remedy)
            raise
        except ray.exceptions.OutOfMemoryError:
            return died(launch, "the machine ran out of memory and Ray stopped the training", RERUN)
        except ray.exceptions.RayError as error:
            return died(launch, f"the Ray worker of run {launch.run_id} died ({type(error).__name__})", RERUN)

    def close(self) -> None:
        """Stop Ray if it was started here. One that still starts after a while is left to end with this process."""
        with self._lock:
            starting, self._starting = self._starting, None
        if starting is None or wait([starting], timeout=_CLOSE_WAIT_S).not_done or starting.exception() is not None:
            return
        self._closing.set()
        self._thread.join()

    def _begin(self, task: RayTask) -> None:
        import ray

        num_cpus = min(task.launch.num_processes, _largest_node()) if task.launch.background else 0
        remote = ray.remote(num_cpus=num_cpus, max_retries=0)(task.function)
        task.reference, task.connection = remote.remote(task.launch, **task.options), self._connection

    def _live(self, started: Future[None]) -> None:
        """The thread that starts Ray, keeps it alive and stops it."""
        self._thread = threading.current_thread()
        try:
            self._connect()
        except LatheError as error:
            started.set_exception(error)
            return
        started.set_result(None)
        misses = 0
        while not self._closing.wait(_LOOK_S):
            misses = 0 if _answers() else misses + 1
            if misses >= _MISSES:
                self._connect_again()
                misses = 0
        self._disconnect()

    def _connect(self) -> None:
        if not self._address:
            _remove_leftovers()
        else:
            _require_listener(self._address)
        os.environ |= _environment(local=not self._address)
        import ray

        give_up_at = time.monotonic() + _START_WAIT_S
        while True:
            try:
                self._init(ray)
                break
            except Exception as error:  # Ray raises many types here, all of them mean the same to the caller
                ray.shutdown()
                if self._address or time.monotonic() > give_up_at:
                    raise _not_started(error, self._address) from error
        with self._lock:
            self._connection += 1
            self._is_there = True

    def _connect_again(self) -> None:
        """Until it succeeds, or everything is closed."""
        _log.warning("Ray went away; connecting again")
        self._disconnect()
        while not self._closing.is_set():
            try:
                self._connect()
                _log.warning("Ray is back")
                return
            except EnvironmentFault as error:
                _log.warning("Ray is still away", reason=error.message)
                self._closing.wait(_AGAIN_S)

    def _init(self, ray: Any) -> None:
        if self._address:
            ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
            return
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}_"))
        ray.init(
            address="local",
            num_cpus=self._num_cpus,
            num_gpus=0,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
            _temp_dir=str(self._folder),
        )

    def _disconnect(self) -> None:
        import ray

        with self._lock:  # from here on nobody asks this Ray for anything
            self._is_there = False
        ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _largest_node() -> int:
    """CPUs of the largest living node: what asks for more would wait for ever."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return max((int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]), default=1) or 1


def _answers() -> bool:
    """Does the head answer, and does it count this process's own node among the living?"""
    import ray

    list_nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
    address = str(ray.get_runtime_context().gcs_address)
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except OSError:
        return False
    living: list[bool] = []

    def ask() -> None:
        with suppress(Exception):  # Ray raises many types here; all of them are no answer
            mine = ray.get_runtime_context().get_node_id()
            living.append(any(node["Alive"] for node in list_nodes() if node["NodeID"] == mine))

    asking = threading.Thread(target=ask, daemon=True)  # a head that was restarted may never answer an old client
    asking.start()
    asking.join(_ANSWER_S)
    return any(living)


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
    quiet["RAY_gcs_rpc_server_reconnect_timeout_s"] = str(_NEVER_S)  # a client must outlive its head
    quiet["RAY_DEDUP_LOGS_SKIP_REGEX"] = "."  # its notices would go to standard output; outcomes carry what matters
    if not local:
        return quiet
    return quiet | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": _token(),
        "RAY_NUM_REDIS_GET_RETRIES": f"{_START_WAIT_S:.0f}",  # one a second
        "RAY_worker_niceness": "0",  # 15 else: a main run would wait for whatever else the machine does
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # the switch that makes Ray take 127.0.0.1 as its node address
    }
