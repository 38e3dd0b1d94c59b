"""Export of a store for people and programs without Lathe: Parquet tables and Markdown pages.

`tables/NAME.parquet` is one table each, `points/RUN.parquet` every point of a run, bit for bit. Read in one snapshot,
streamed. Left out: token hashes, and what only Lathe's own processes need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector.sqlalchemy import VECTOR
from psycopg import sql
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR

from context_store import points
from context_store.archive import new_folder
from context_store.arrays import Points
from context_store.database import Database, driver
from context_store.export_pages import file_name, write_pages
from context_store.lineage import Lineage, load_lineage
from context_store.models import Base, SeriesRow

LEFT_OUT = frozenset({"chunk", "frame", "latest", "shipment", "stream", "tail", "token", "watch_mark"})
_ROWS_A_BATCH = 10_000
_POINTS_A_BATCH = 500_000
_POINTS = pa.schema(
    [
        ("series", pa.dictionary(pa.int32(), pa.string())),
        ("segment", pa.int16()),
        ("step", pa.int64()),
        ("value", pa.float64()),
        ("canonical", pa.bool_()),
    ]
)


def export(url: str, folder: Path, *, now: float, tell: Callable[[str, int, int], None]) -> dict[str, int]:
    """Write everything to a new folder; returns the number of rows by table and of points.

    Raises UserInputError when the folder is there already, OSError of the disk. Then, and when interrupted, nothing
    is left.
    """
    database = Database(url, clock=lambda: now)
    try:
        with new_folder(folder) as draft, database.snapshot() as connection:
            counts = _write_tables(connection, draft / "tables", tell)
            counts["points"] = _write_points(connection, draft / "points", tell)
            write_pages(database, draft, counts, now)
    finally:
        database.close()
    return counts


def _write_tables(connection: sa.Connection, folder: Path, tell: Callable[[str, int, int], None]) -> dict[str, int]:
    folder.mkdir()
    tables = [table for table in Base.metadata.sorted_tables if table.name not in LEFT_OUT]
    counts = {}
    for number, table in enumerate(tables):
        tell("tables", number, len(tables))
        counts[table.name] = _write_table(connection, table, folder / f"{table.name}.parquet")
    tell("tables", len(tables), len(tables))
    return counts


def _write_table(connection: sa.Connection, table: sa.Table, path: Path) -> int:
    columns = [column for column in table.columns if not isinstance(column.type, TSVECTOR | VECTOR)]  # derived
    schema = pa.schema([(column.name, _arrow_type(column.type)) for column in columns])
    query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        sql.Identifier(table.name),
        sql.SQL(", ").join(sql.Identifier(column.name) for column in table.primary_key),
    )
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batches(connection, query):
            columns_of_batch = zip(*batch, strict=True)
            arrays = [pa.array(each, kind) for each, kind in zip(columns_of_batch, schema.types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            rows += len(batch)
    return rows


def _batches(connection: sa.Connection, query: sql.Composed) -> Iterator[list[tuple[Any, ...]]]:
    with driver(connection).cursor(name="export") as cursor:
        cursor.execute(query)
        while batch := cursor.fetchmany(_ROWS_A_BATCH):
            yield batch


def _arrow_type(column: sa.types.TypeEngine[Any]) -> pa.DataType:
    """Raises TypeError for a kind of column that was never exported, so that a new one is noticed."""
    if isinstance(column, sa.types.TypeDecorator):
        column = column.impl_instance
    if isinstance(column, ARRAY):
        return pa.list_(_arrow_type(column.item_type))
    for kind, found in _ARROW_TYPES:
        if isinstance(column, kind):
            return found
    raise TypeError(f"no Parquet type for {column!r}")


_ARROW_TYPES: tuple[tuple[type[sa.types.TypeEngine[Any]], pa.DataType], ...] = (  # the first that fits
    (sa.SmallInteger, pa.int16()),
    (sa.BigInteger, pa.int64()),
    (sa.Integer, pa.int32()),
    (sa.Float, pa.float64()),
    (sa.Boolean, pa.bool_()),
    (sa.DateTime, pa.timestamp("us", tz="UTC")),
    (sa.LargeBinary, pa.binary()),
    (sa.String, pa.string()),
)


def _write_points(connection: sa.Connection, folder: Path, tell: Callable[[str, int, int], None]) -> int:
    folder.mkdir()
    runs = connection.execute(sa.select(SeriesRow.run_id).distinct().order_by(SeriesRow.run_id)).scalars().all()
    total = 0
    for number, run_id in enumerate(runs):
        tell("points", number, len(runs))
        total += _write_run(connection, run_id, folder / f"{file_name(run_id)}.parquet")
    tell("points", len(runs), len(runs))
    return total


def _write_run(connection: sa.Connection, run_id: str, path: Path) -> int:
    """Sorted by series (in order of appearance), segment, step and arrival."""
    lineage = load_lineage(connection, run_id)
    rows = connection.execute(_SIZES, {"run": run_id}).all()
    names = pa.array([row.name for row in rows], pa.string())
    position = {row.id: number for number, row in enumerate(rows)}
    written = 0
    with pq.ParquetWriter(path, _POINTS, compression="zstd") as writer:
        for ids in _series_batches([(row.id, row.num_points) for row in rows]):
            found = points.read(connection, run_id, ids)
            indices = pa.array([position[each] for each in found.series.tolist()], pa.int32())
            arrays = [
                pa.DictionaryArray.from_arrays(indices, names),
                pa.array(found.segments, pa.int16()),
                pa.array(found.steps, pa.int64()),
                pa.array(found.values, pa.float64()),
                pa.array(_canonical(found, lineage)),
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=_POINTS))
            written += len(found)
    return written


def _canonical(found: Points, lineage: Lineage) -> NDArray[np.bool_]:
    """Which points the canonical view of each series has: of one step the newest segment's last."""
    kept = np.flatnonzero(lineage.mask(found.segments, found.steps))
    kept = kept[np.lexsort((kept, found.segments[kept], found.steps[kept], found.series[kept]))]
    series, steps = found.series[kept], found.steps[kept]
    last = np.append((series[1:] != series[:-1]) | (steps[1:] != steps[:-1]), True)[: len(kept)]
    canonical = np.zeros(len(found), dtype=np.bool_)
    canonical[kept[last]] = True
    return canonical


def _series_batches(sizes: list[tuple[int, int]]) -> Iterator[list[int]]:
    """Series together up to _POINTS_A_BATCH points; a longer one alone."""
    batch: list[int] = []
    held = 0
    for series, num_points in sizes:
        if batch and held + num_points > _POINTS_A_BATCH:
            yield batch
            batch, held = [], 0
        batch.append(series)
        held += num_points
    if batch:
        yield batch


# What is in the tail is not counted by series: it is taken to be spread evenly.
_SIZES = sa.text("""
    SELECT s.id, s.name, coalesce((SELECT sum(n) FROM chunk WHERE series_id = s.id), 0) + coalesce((
        SELECT sum(num_points) / greatest(1, (SELECT count(*) FROM series WHERE run_id = run.id))
        FROM tail JOIN run ON run.number = tail.run_number WHERE run.id = s.run_id GROUP BY run.id), 0) AS num_points
    FROM series s WHERE s.run_id = :run ORDER BY s.id
""")
