"""One schema version per Lathe version, made by one migration, the same as the models say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import context_store
from context_store import EmbeddedPostgres, Store, migrate, open_store
from context_store.models import Base
from context_store.records import Project
from context_store.schema import HEAD
from contracts.errors import DatabaseUnavailable, DatabaseVersionError, DiskFull, NotFound


def empty_database(server_url: str, name: str) -> str:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server_url.replace("/lathe?", f"/{name}?")


def test_migrations_and_models_agree(database_url: str) -> None:
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
        extension = connection.execute(sa.text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")).scalar()
    engine.dispose()
    assert extension == 1


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(context_store.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_migrating_at_once_and_again_is_safe(postgres_url: str) -> None:
    url = empty_database(postgres_url, "migrated_at_once")
    threads = [threading.Thread(target=migrate, args=[url]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    migrate(url)
    open_store(url).close()


def test_an_unmigrated_or_newer_database_is_refused_with_the_remedy(
    postgres_url: str, new_database_url: Callable[[], str]
) -> None:
    with pytest.raises(DatabaseVersionError, match="schema none") as caught:
        open_store(empty_database(postgres_url, "never_migrated"))
    assert "lathe up" in caught.value.remedy
    url = new_database_url()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for action in (open_store, migrate):
        with pytest.raises(DatabaseVersionError, match="newer Lathe") as caught:
            action(url)
        assert "update Lathe" in caught.value.remedy


def test_a_database_that_is_down_is_said_to_be_down_and_comes_back(short_folder: Path) -> None:
    server = EmbeddedPostgres(short_folder, durable=False)
    url = server.start()
    migrate(url)
    with open_store(url) as store:
        store.projects.put(Project(id="p", path="/p"))
        server.stop()
        for action in (lambda: store.projects.list(), lambda: open_store(url), lambda: migrate(url)):
            with pytest.raises(DatabaseUnavailable) as caught:
                action()
            assert "lathe up" in caught.value.remedy
        server.start()
        assert [project.id for project in store.projects.list()] == ["p"], "the same store works again"
    server.stop()


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "postgresql://x@/none?host=/nowhere"])
def test_nothing_listens(url: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        open_store(url)


def test_a_full_disk_of_the_database_is_named(store: Store) -> None:
    """The server reports it under this SQLSTATE, whichever statement meets it."""
    with psycopg.connect(store.url) as connection:
        connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
        )
        connection.execute("CREATE TRIGGER t BEFORE INSERT ON project FOR EACH ROW EXECUTE FUNCTION full_disk()")
    with pytest.raises(DiskFull) as caught:
        store.projects.put(Project(id="p", path="/p"))
    assert "free some space" in caught.value.remedy


def test_unknown_things_are_named(store: Store) -> None:
    for action in (store.projects.get, store.runs.get, store.proposals.get, store.effects.get, store.budgets.state):
        with pytest.raises(NotFound, match="missing") as caught:
            action("missing")
        assert caught.value.remedy
