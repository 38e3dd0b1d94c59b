"""One database server for a whole evaluation: a database a case costs much less than a server."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from context_store import EmbeddedPostgres, migrate

_TEMPLATE = "template_lathe"


@contextmanager
def server() -> Iterator[str]:
    """Url of a running server with a migrated template; nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="rcad"))
    postgres = EmbeddedPostgres(folder, durable=False)
    try:
        url = postgres.start()
        migrate(_create(url, _TEMPLATE, "template1"))
        yield url
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(server_url: str) -> Iterator[str]:
    """Url of a fresh, migrated database that is dropped afterwards."""
    name = f"case_{uuid.uuid4().hex}"
    url = _create(server_url, name, _TEMPLATE)
    try:
        yield url
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _create(server_url: str, name: str, template: str) -> str:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return server_url.replace("/lathe?", f"/{name}?")
