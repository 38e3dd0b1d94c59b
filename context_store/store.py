"""The store: one component per area over one database."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from context_store.activity import ActivityFeed
from context_store.budgets import Budgets
from context_store.casework import CaseWorkbook
from context_store.code import Code
from context_store.completeness import Completeness
from context_store.config_facts import ConfigFacts
from context_store.data_catalog import DataCatalog
from context_store.database import Database
from context_store.decontamination import Benchmarks
from context_store.effects import Effects
from context_store.embedding import Embedder, HashedEmbedder
from context_store.environment import EnvironmentFacts
from context_store.evals import Evals
from context_store.experiments import Experiments
from context_store.ingest import Ingest
from context_store.knowledge import Knowledge
from context_store.ledger import Ledger
from context_store.likeness import Likeness
from context_store.links import Links
from context_store.memory import Memories
from context_store.negatives import Negatives
from context_store.policies import Policies
from context_store.projects import Projects
from context_store.proposals import Proposals
from context_store.records import UNKNOWN_OWNER
from context_store.recurrence import Recurrence
from context_store.redactions import Redactions
from context_store.retention import Retention
from context_store.runs import Runs
from context_store.schedules import Schedules
from context_store.schema import check_version
from context_store.search import Search
from context_store.series import SeriesStore
from context_store.streams import Streams
from context_store.threads import ChatThreads
from context_store.timeline import Timeline
from context_store.tokens import Tokens
from context_store.triage import Triage
from context_store.why import WhyQuestions


class Store:
    """Everything Lathe remembers. Safe to use from several threads; several processes may share one database."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self.embedder = embedder
        self.url = database.url
        self.projects = Projects(database)
        self.runs = Runs(database)
        self.series = SeriesStore(database)
        self.ingest = Ingest(database)
        self.retention = Retention(database)
        self.streams = Streams(database)
        self.timeline = Timeline(database)
        self.code = Code(database)
        self.links = Links(database)
        self.knowledge = Knowledge(database)
        self.casework = CaseWorkbook(database)
        self.triage = Triage(database, self.knowledge)
        self.negatives = Negatives(database)
        self.search = Search(database, embedder)
        self.likeness = Likeness(database, self.negatives, self.search, embedder)
        self.recurrence = Recurrence(database, self.knowledge, self.runs, self.code, self.search)
        self.redactions = Redactions(database)
        self.proposals = Proposals(database)
        self.effects = Effects(database)
        self.budgets = Budgets(database)
        self.policies = Policies(database)
        self.experiments = Experiments(database)
        self.schedules = Schedules(database)
        self.data = DataCatalog(database)
        self.benchmarks = Benchmarks(database)
        self.config = ConfigFacts(database)
        self.environment = EnvironmentFacts(database)
        self.evals = Evals(database)
        self.ledger = Ledger(database)
        self.why = WhyQuestions(database)
        self.completeness = Completeness(database)
        self.activity = ActivityFeed(database)
        self.tokens = Tokens(database)
        self.threads = ChatThreads(database)
        self.memory = Memories(database)

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_store(
    url: str,
    *,
    clock: Callable[[], float] = time.time,
    embedder: Embedder | None = None,
    owner: str = UNKNOWN_OWNER,
) -> Store:
    """Open a migrated database given by a libpq url.

    `clock` stamps what arrives without a time of its own; `embedder` makes the vectors of `store.search`, by default of
    hashed words; `owner` answers for what is stored without another owner. Raises DatabaseUnavailable when nothing
    answers and DatabaseVersionError when the schema is not the one of this version.
    """
    database = Database(url, clock=clock, owner=owner)
    try:
        check_version(database)
    except BaseException:
        database.close()
        raise
    return Store(database, embedder or HashedEmbedder())
