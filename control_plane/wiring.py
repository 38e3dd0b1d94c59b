"""The only composition root: settings in, a working Lathe out. Expensive parts are built when first used."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from context_store import EmbeddedPostgres, Store, migrate, open_store
from context_store.records import Amount
from contracts.backend import TrainerBackend
from contracts.errors import DiskFull, EnvironmentFault
from control_plane.leases import Leases
from control_plane.settings import Settings
from control_plane.shipper import Shipper
from control_plane.trainings import Trainings
from control_plane.worktrees import Worktrees

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from context_store.embedding import Embedder
    from control_plane.chat import Mind
    from control_plane.executor import Executor
    from loops.core import Loop
    from loops.runner import Runner

_MIN_FREE_BYTES = 64 * 1024 * 1024
_FIRST_FRESH_SEED = 101  # fixed, so that a case that goes on asks for the same re-runs


class Lathe:
    """Store, trainings, backend, executor and loop runner of one LATHE_HOME. Use it as a context manager."""

    def __init__(self, settings: Settings, store: Store, resources: ExitStack) -> None:
        self.settings = settings
        self.store = store
        self._resources = resources
        self.worktrees = Worktrees(settings.worktrees_folder)
        self.shipper = Shipper(store)
        self.trainings = Trainings(store, self.worktrees, settings.runs_folder)

    @classmethod
    def open(cls, settings: Settings) -> Lathe:
        """Start or reach the database, migrate it and build the rest. Raises EnvironmentFault with the remedy."""
        with ExitStack() as resources:
            prepare_home(settings.home)
            url = settings.database_url or resources.enter_context(embedded_database(settings.postgres_folder))
            migrate(url)
            embedder = build_embedder(settings, lambda: resources.enter_context(open_store(url)))
            store = resources.enter_context(open_store(url, embedder=embedder, owner=settings.actor))
            return cls(settings, store, resources.pop_all())

    def close(self) -> None:
        """Stop what was started. The embedded database stops with the last process that uses it."""
        self._resources.close()

    def __enter__(self) -> Lathe:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @cached_property
    def backend(self) -> TrainerBackend:
        """What runs trainings; with Ray, it begins to start now and is waited for by the first launch."""
        backend = self._ray() if self.settings.backend == "ray" else self._local()
        self._resources.callback(backend.close)
        return backend

    def _ray(self) -> TrainerBackend:
        from control_plane.backends.embedded import EmbeddedBackend

        backend = EmbeddedBackend(
            num_cpus=self.settings.num_cpus,
            ray_address=self.settings.ray_address,
            cancel_grace_s=self.settings.cancel_grace_s,
        )
        backend.warm_up()
        return backend

    def _local(self) -> TrainerBackend:
        from control_plane.backends.local import LocalBackend

        return LocalBackend(cancel_grace_s=self.settings.cancel_grace_s)

    @cached_property
    def leases(self) -> Leases:
        """Locks among all processes that share the database."""
        return self._resources.enter_context(Leases(self.store.url))

    def executor(self, worker: str, *, clock: Callable[[], float] = time.time) -> Executor:
        """A new executor that claims effects in the name of `worker`."""
        from control_plane.backends.metered import SpentNotes
        from control_plane.effects import Workshop, handlers
        from control_plane.executor import Executor

        spent = SpentNotes(folder=self.settings.spent_folder)
        workshop = Workshop(
            store=self.store,
            worktrees=self.worktrees,
            runs_folder=self.settings.runs_folder,
            spent=spent,
            environment=self.settings.as_environment() | {"LATHE_DATABASE_URL": self.store.url},
        )
        return Executor(
            store=self.store,
            backend=self.backend,
            shipper=self.shipper,
            handlers=handlers(workshop),
            worker=worker,
            slots=self.settings.num_cpus,
            spent=spent,
            clock=clock,
        )

    def runner(self, wait: Callable[[], None]) -> Runner:
        """A new runner of all loops; `wait` is called while effects are pending. One runner serves one thread."""
        from control_plane.chat import mind_of
        from loops.core import Limits
        from loops.evolve.loop import LIMITS as EVOLVE_LIMITS
        from loops.quantify import limits as of_classifiers
        from loops.quantify.casebook import CaseBook
        from loops.runner import Runner

        mind = mind_of(self)
        models = Amount(tokens=mind.budget.tokens, usd=mind.budget.usd) if mind.models else Amount()
        loops = {loop.name: loop for loop in self._loops(mind)}
        return Runner(
            store=self.store,
            checkpointer=self.checkpointer(),
            loops=loops,
            limits=Limits(tokens=models.tokens, usd=models.usd),
            limits_of={
                "evolve": lambda case_id: EVOLVE_LIMITS,
                "classifier": lambda case_id: of_classifiers.of_case(CaseBook(self.store, case_id, 0.0), models),
            },
            wait=wait,
        )

    def _loops(self, mind: Mind) -> tuple[Loop, ...]:
        from agents.roles import Colleague
        from loops.debug.loop import DebugLoop, DebugOptions
        from loops.evolve.loop import EvolveLoop
        from loops.potential.loop import PotentialLoop
        from loops.potential.recipe.loop import RecipeLoop
        from loops.quantify.loop import ClassifierLoop

        seeds = range(_FIRST_FRESH_SEED, _FIRST_FRESH_SEED + self.settings.fresh_seeds)
        colleague = Colleague(self.store, lambda case_id: mind.door_of_case(self.store, case_id))
        debug = DebugLoop(self.store, DebugOptions(fresh_seeds=tuple(seeds), colleague=colleague))
        classifiers = ClassifierLoop(self.store, self.settings.cases_folder, self._deployed_classifier)
        return debug, classifiers, PotentialLoop(self.store), RecipeLoop(self.store), EvolveLoop(self.store)

    def _deployed_classifier(self, name: str) -> str:
        from loops.quantify.deployment import current

        found = current(self.settings.classifiers_folder, name)
        return "" if found is None else found.payload.sha256

    def checkpointer(self) -> Any:
        """A saver in LangGraph's own schema."""
        from langgraph.checkpoint.postgres import PostgresSaver

        return PostgresSaver(self._graph_connections)

    @cached_property
    def _graph_connections(self) -> ConnectionPool[Any]:
        """Connections that see LangGraph's own schema only, with its tables made."""
        os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # read when langgraph is imported
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import ConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: ConnectionPool[Any] = ConnectionPool(
            self.store.url, kwargs={**options, "options": "-c search_path=langgraph"}, min_size=0, max_size=8, open=True
        )
        self._resources.callback(pool.close)
        with pool.connection() as connection, self.leases.held("langgraph-setup"):
            connection.execute("CREATE SCHEMA IF NOT EXISTS langgraph")
            PostgresSaver(connection).setup()
        return pool


def build_embedder(settings: Settings, open_ledger: Callable[[], Store]) -> Embedder:
    """Nothing is loaded before the first text. `open_ledger`: the store in which a remote one's calls are reserved."""
    from context_store.embedding import HashedEmbedder, default_embedder

    if settings.embedder in ("", "hashed"):
        return HashedEmbedder() if settings.embedder else default_embedder()
    from agents.llm.accounting import DailyBudget
    from agents.llm.embeddings import LiteLLMEmbedder

    limit = Amount(tokens=settings.embed_tokens, usd=settings.embed_usd)
    budget = DailyBudget(open_ledger(), "embeddings", limit, time.time)
    return LiteLLMEmbedder(settings.embedder, budget, lambda: uuid.uuid4().hex, settings.api_base)


def prepare_home(home: Path) -> None:
    """Make the folder. Raises EnvironmentFault when it cannot be written, DiskFull when hardly any space is left."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        free = os.statvfs(home)
    except OSError as error:
        raise EnvironmentFault(
            f"LATHE_HOME {home} cannot be used: {error.strerror}", remedy="set LATHE_HOME to a folder you can write"
        ) from error
    if not os.access(home, os.W_OK):
        raise EnvironmentFault(f"LATHE_HOME {home} is not writable", remedy="set LATHE_HOME to a folder you can write")
    if free.f_bavail * free.f_frsize < _MIN_FREE_BYTES:
        raise DiskFull(
            f"less than {_MIN_FREE_BYTES // 2**20} MiB are left for {home}",
            remedy="free some space or set LATHE_HOME to another disk; nothing stored is lost",
        )


@contextmanager
def embedded_database(folder: Path) -> Iterator[str]:
    """The url of the embedded Postgres; whoever leaves last stops it.

    Every user holds a shared lock, which the kernel drops when it dies, however it dies.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "postgres-users.lock").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        server = EmbeddedPostgres(folder)
        try:
            yield server.start()
        finally:
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                server.stop()
