"""Bringing a database to this version's schema, and checking that it is there."""

from __future__ import annotations

import time
from pathlib import Path

import sqlalchemy as sa
from psycopg import errors as pg_errors
from sqlalchemy.exc import DBAPIError

from context_store.database import Database
from contracts.errors import DatabaseVersionError, EnvironmentFault

HEAD = "0013"
_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x1A7E


def migrate(url: str) -> None:
    """Bring the database to this version: extension `vector` and all tables. Does nothing when it is there already.

    Safe to call from several processes at once. Raises DatabaseUnavailable, DatabaseVersionError for a schema of a
    newer Lathe, EnvironmentFault when pgvector is not installed on the server.
    """
    database = Database(url, clock=time.time)
    try:
        with database.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            found = _version(connection)
            if found == HEAD:
                return
            if found is not None and found > HEAD:
                raise _version_error(found)
            _create_extension(connection)
            _upgrade(connection)
    finally:
        database.close()


def check_version(database: Database) -> None:
    """Raises DatabaseVersionError unless the database has exactly this version's schema."""
    with database.begin() as connection:
        found = _version(connection)
    if found != HEAD:
        raise _version_error(found)


def _version(connection: sa.Connection) -> str | None:
    if connection.execute(sa.text("SELECT to_regclass('public.alembic_version')")).scalar_one() is None:
        return None
    found: str | None = connection.execute(sa.text("SELECT version_num FROM public.alembic_version")).scalar()
    return found


def _version_error(found: str | None) -> DatabaseVersionError:
    if found is None or found < HEAD:
        return DatabaseVersionError(
            f"the database has schema {found or 'none'}, this version of Lathe needs {HEAD}",
            remedy="run `lathe up`, which migrates it, and try again",
        )
    return DatabaseVersionError(
        f"the database has schema {found}, made by a newer Lathe; this one knows {HEAD}",
        remedy="update Lathe, or point LATHE_DATABASE_URL (or LATHE_HOME) at another database",
    )


def _create_extension(connection: sa.Connection) -> None:
    try:
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    except DBAPIError as error:
        if isinstance(error.orig, pg_errors.InsufficientPrivilege):
            raise EnvironmentFault(
                "the database user may not create the extension 'vector'",
                remedy="have an administrator run CREATE EXTENSION vector in this database",
            ) from error
        if not isinstance(error.orig, pg_errors.FeatureNotSupported | pg_errors.UndefinedFile):
            raise
        raise EnvironmentFault(
            "the Postgres server has no pgvector",
            remedy="install the extension 'vector' there (for Debian: postgresql-NN-pgvector)",
        ) from error


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
