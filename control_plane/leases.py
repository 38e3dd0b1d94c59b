"""Named locks among all processes on one database (Postgres advisory locks): they end with their holder."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

import psycopg

from contracts.errors import DatabaseUnavailable

WORKER = "worker"
_RETRY_S = 0.1
_LOOK = """
    SELECT EXISTS (
        SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE locktype = 'advisory' AND objsubid = 1 AND datname = current_database()
        AND (classid::bigint << 32 | objid::bigint) = %s
    )
"""


class Leases:
    """Holds its locks on one connection of its own; losing the connection loses them. Thread-safe.

    Locks of one Leases object do not exclude each other: use one object per process and track what it holds.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[bool]] | None = None
        self._held: set[str] = set()
        self._announced: set[str] = set()

    def try_take(self, name: str) -> bool:
        """Take the lock unless it is held, by this object or elsewhere. Raises DatabaseUnavailable."""
        with self._lock:
            if name in self._held:
                return False
            taken = self._ask("SELECT pg_try_advisory_lock(%s)", name)
            if taken:
                self._held.add(name)
            return taken

    def give(self, name: str) -> None:
        """Release a lock this object took."""
        with self._lock, suppress(DatabaseUnavailable):  # a connection that broke has released it already
            self._held.discard(name)
            self._ask("SELECT pg_advisory_unlock(%s)", name)

    def announce(self, name: str) -> None:
        """Take the lock together with all others that announce the same name, until `withdraw`."""
        with self._lock:
            self._ask("SELECT pg_advisory_lock_shared(%s) IS NULL", name)
            self._announced.add(
                name
            )  # not before: a new connection would have taken it already, and twice is too often

    def withdraw(self, name: str) -> None:
        """End an announcement of this object."""
        with self._lock, suppress(DatabaseUnavailable):  # a connection that broke has ended it already
            self._announced.discard(name)
            self._ask("SELECT pg_advisory_unlock_shared(%s)", name)

    def renew(self) -> None:
        """Announce again what was announced, should the database have been started anew. Raises DatabaseUnavailable."""
        with self._lock:
            self._ask("SELECT %s IS NOT NULL", WORKER)

    def is_held(self, name: str) -> bool:
        """True when anybody, this object included, holds or announces the name."""
        with self._lock:
            return self._ask(_LOOK, name)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Wait for the lock and hold it.

        Asks again and again instead of waiting inside the database: a waiting statement keeps a snapshot, and
        `CREATE INDEX CONCURRENTLY` of whoever holds the lock would wait for that snapshot to end.
        """
        while not self.try_take(name):
            time.sleep(_RETRY_S)
        try:
            yield
        finally:
            self.give(name)

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._connection is not None:
            self._connection.close()

    def _ask(self, query: str, name: str) -> bool:
        try:
            if self._connection is None or self._connection.closed:
                self._connect()
            assert self._connection is not None
            row = self._connection.execute(query, [_number(name)]).fetchone()
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(
                f"the database does not answer: {error}", remedy="start it again; nothing stored is lost"
            ) from error
        return bool(row and row[0])

    def _connect(self) -> None:
        self._held.clear()
        self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        for name in self._announced:
            self._connection.execute("SELECT pg_advisory_lock_shared(%s)", [_number(name)])


def _number(name: str) -> int:
    """Advisory locks are named by a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(f"lathe:{name}".encode()).digest()[:8], "big", signed=True)
