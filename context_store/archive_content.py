"""What a database holds, as one hash that does not depend on server, version, locale or physical order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from context_store.database import driver


@dataclass(frozen=True, kw_only=True)
class TableContent:
    """Number of rows, and sha256 over the rows as COPY text in the order of the primary key."""

    rows: int
    sha256: str


Content = Mapping[str, TableContent]  # by "schema.table"


def read_content(connection: sa.Connection, tell: Callable[[int, int], None]) -> dict[str, TableContent]:
    """Of all tables that are no extension's; streamed. `tell(done, total)` counts tables."""
    for setting in ("bytea_output = hex", "datestyle = iso", "timezone = utc", "extra_float_digits = 1"):
        connection.execute(sa.text(f"SET LOCAL {setting}"))
    tables = connection.execute(_TABLES).all()
    content = {}
    for number, table in enumerate(tables):
        tell(number, len(tables))
        content[f"{table.schema}.{table.name}"] = _table_content(connection, table)
    tell(len(tables), len(tables))
    return content


def content_hash(content: Content) -> str:
    """One sha256 over all tables."""
    lines = [f"{name} {table.rows} {table.sha256}\n" for name, table in sorted(content.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def differing_tables(a: Content, b: Content) -> list[str]:
    """Names of tables that are not the same in both."""
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


def _table_content(connection: sa.Connection, table: sa.Row[Any]) -> TableContent:
    order = [
        sql.SQL('{} COLLATE "C"' if is_text else "{}").format(sql.Identifier(name))
        for name, is_text in zip(table.key, table.key_is_text, strict=True)
    ]
    query = sql.SQL("COPY (SELECT {} FROM {} ORDER BY {}) TO STDOUT").format(
        sql.SQL(", ").join(map(sql.Identifier, table.columns)),
        sql.Identifier(table.schema, table.name),
        sql.SQL(", ").join(order) if order else sql.SQL('{}::text COLLATE "C"').format(sql.Identifier(table.name)),
    )
    digest, rows = hashlib.sha256(), 0
    digest.update(f"{table.columns}\n".encode())
    with driver(connection).cursor() as cursor, cursor.copy(query) as copy:
        for block in copy:
            digest.update(block)
            rows += bytes(block).count(b"\n")
    return TableContent(rows=rows, sha256=digest.hexdigest())


# Generated columns follow from the others. Names sort in bytes, whatever the locale.
_TABLES = sa.text("""
    SELECT n.nspname AS schema, c.relname AS name,
        (SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE "C") FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') AS columns,
        coalesce((SELECT array_agg(a.attname::text ORDER BY k.position) FROM pg_index i
         CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, position)
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
         WHERE i.indrelid = c.oid AND i.indisprimary), '{}') AS key,
        coalesce((SELECT array_agg(a.attcollation <> 0 ORDER BY k.position) FROM pg_index i
         CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, position)
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
         WHERE i.indrelid = c.oid AND i.indisprimary), '{}') AS key_is_text
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
""")
