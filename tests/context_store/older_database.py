"""Databases as earlier versions of Lathe made them."""

from __future__ import annotations

from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from test_store_schema import empty_database

import context_store


def older_database(postgres_url: str, name: str, revision: str) -> str:
    """Url of a new database with the schema of that revision, without rows."""
    url = empty_database(postgres_url, name)
    config = Config()
    config.set_main_option("script_location", str(Path(context_store.__file__).parent / "migrations"))
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
    return url
