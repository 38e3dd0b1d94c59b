"""The one door to Postgres: pooled connections, transactions, and database errors turned into Lathe's."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import errors as pg_errors
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError

from context_store.records import UNKNOWN_OWNER
from contracts.errors import DatabaseUnavailable, DiskFull, LatheError, NotFound, UserInputError


class Database:
    """A pool of connections to one database, opened by `owner`. Thread-safe."""

    def __init__(self, url: str, *, clock: Callable[[], float], owner: str = UNKNOWN_OWNER) -> None:
        self.url = url
        self.clock = clock
        self.owner = owner
        self._engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=lambda: psycopg.connect(url, connect_timeout=10),
            pool_size=5,
            max_overflow=15,
        )
        self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        sa.event.listen(self._engine, "checkout", _require_alive)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """One read-committed transaction: committed at the end, rolled back on any error."""
        with self._errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """For single statements that only read: without a transaction they take one round trip instead of three."""
        with self._errors(), self._single.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """One read-only transaction in which all statements see the same moment."""
        with self._errors(), self._engine.connect() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, psycopg.Error) as error:
            fault = _as_fault(error.orig if isinstance(error, DBAPIError) else error)
            if fault is None:
                raise
            raise fault from error


def _require_alive(connection: psycopg.Connection[Any], *_: object) -> None:
    """The pool replaces a connection that the server left; asking the kernel is cheaper than asking the server."""
    if not connection.closed:
        socket = select.poll()
        socket.register(connection.fileno(), select.POLLIN)
        if not socket.poll(0):  # an idle server says nothing, a gone one the end of the stream
            return
    raise sa.exc.DisconnectionError("the server closed the connection")


def driver(connection: sa.Connection) -> psycopg.Connection[tuple[Any, ...]]:
    """The psycopg connection below, inside the same transaction: for COPY and binary results."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    return raw


def any_of(texts: Sequence[str]) -> sa.CollectionAggregate[Any]:
    """`column == any_of(texts)`: like IN, but one parameter however many there are."""
    return sa.any_(sa.literal(list(texts), ARRAY(sa.Text)))


def _as_fault(error: BaseException | None) -> LatheError | None:
    """What the person can repair; None for anything that would be a mistake of ours."""
    if isinstance(error, pg_errors.DiskFull):
        return DiskFull(
            f"the database has no space left: {error}",
            remedy="free some space on the disk of the database and try again; nothing stored is lost",
        )
    if isinstance(error, pg_errors.ForeignKeyViolation):
        return NotFound(
            f"something this belongs to is not stored: {error.diag.message_detail}", remedy="store that first"
        )
    if isinstance(error, psycopg.DataError):
        return UserInputError(
            f"a value cannot be stored or searched for: {str(error).strip()}",
            remedy="leave out NUL characters, and stay within 64 bits",
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and _is_connection_loss(error):
        return DatabaseUnavailable(
            f"the database does not answer: {str(error).strip()}",
            remedy="start it with `lathe up` (or repair LATHE_DATABASE_URL) and try again; nothing stored is lost",
        )
    return None


def _is_connection_loss(error: psycopg.Error) -> bool:
    """No SQLSTATE: the driver could not connect. Classes 08, 28, 3D, 57P, 53300: the server said so."""
    return error.sqlstate is None or error.sqlstate.startswith(("08", "28", "3D", "57P", "53300"))
