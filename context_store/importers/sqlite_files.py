"""SQLite files, opened read-only, also while their owner writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from context_store.importers.formats import head

_MAGIC = b"SQLite format 3\0"


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Raises sqlite3.Error for a damaged file."""
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    try:
        yield connection
    finally:
        connection.close()


def columns_of(path: Path, table: str) -> set[str]:
    """Its columns; empty when the file is no database or has no such table."""
    if not head(path).startswith(_MAGIC):
        return set()
    try:
        with opened(path) as connection:
            return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", [table])}
    except sqlite3.Error:
        return set()
