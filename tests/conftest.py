"""One embedded Postgres per test session, one fresh migrated database per test. The server is real."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from context_store import EmbeddedPostgres, Store, migrate, open_store

# Each process of the tests computes with one thread: two of them with two each wait for one another most of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("lathe", deadline=None)  # speed is measured in benchmarks, not here
settings.load_profile("lathe")

_numbers = itertools.count()


@pytest.fixture
def run_lathe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """run_lathe(ENVIRONMENT, *ARGUMENTS) runs `lathe ARGUMENTS` here: exit status, standard output, standard error."""
    from control_plane.cli.main import main

    def run(environment: Mapping[str, str], *arguments: object) -> tuple[int, str, str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["lathe", *map(str, arguments)])
        status: object = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        captured = capsys.readouterr()
        assert isinstance(status, int)
        return status, captured.out, captured.err

    return run


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A fresh folder with a short path, in memory when there is plenty."""
    folder = _short_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Url of database `lathe` of a server that lives as long as the test session; it is not migrated."""
    folder = _short_folder()
    server = EmbeddedPostgres(folder, durable=False)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> str:
    """Name of a migrated database nobody is connected to."""
    migrate(_create(postgres_url, "template_lathe"))
    return "template_lathe"


@pytest.fixture(scope="session")
def new_database_url(postgres_url: str, template_database: str) -> Callable[[], str]:
    """Makes one more fresh, migrated database at each call."""
    return lambda: _create(postgres_url, f"test_{next(_numbers)}", template_database)


@pytest.fixture
def database_url(postgres_url: str, new_database_url: Callable[[], str]) -> Iterator[str]:
    """Url of a fresh, migrated database for this test."""
    url = new_database_url()
    yield url
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {url.rpartition('/')[2].partition('?')[0]} WITH (FORCE)")


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store on a fresh database."""
    with open_store(database_url) as opened:
        yield opened


def _short_folder() -> Path:
    """In memory when there is plenty, because every database is hundreds of small files."""
    memory = Path("/dev/shm")
    plenty = memory.is_dir() and shutil.disk_usage(memory).free > 2**32
    return Path(tempfile.mkdtemp(prefix="lt", dir=memory if plenty else None))


def _create(server_url: str, name: str, template: str = "template1") -> str:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return server_url.replace("/lathe?", f"/{name}?")
