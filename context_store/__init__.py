"""Organisational memory: runs, series, timeline, code, knowledge, approvals, effects, budgets, ledger.

server    EmbeddedPostgres: a private Postgres in a folder
store     Store: one component per area (`store.runs`, `store.series`, ...), thread-safe
records   the values that go in and come out
schema    migrate(): brings a database to this version
"""

from context_store.runs import diff_config
from context_store.schema import migrate
from context_store.server import EmbeddedPostgres
from context_store.store import Store, open_store

__all__ = ["EmbeddedPostgres", "Store", "diff_config", "migrate", "open_store"]
