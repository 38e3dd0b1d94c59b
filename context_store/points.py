"""The two tiers of points: writing, reading and sealing them.

A point is (series, segment, step, value). The tail is idempotent by the first three; chunks of one (series, segment)
never overlap; where both tiers have a point the tail's is the newer one. Loads and seals of one run exclude each
other by `lock_run`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store import chunks
from context_store.database import driver

# A load with at least this many points of one series writes a small chunk at once: much cheaper than rows.
DIRECT_CHUNK_POINTS = 64

# series_id, segment, step_lo, step_hi, n, min, max, sum, first, last, nan_count, pos_inf_count, neg_inf_count, payload
_CHUNK_TYPES = ["int4", "int2", "int8", "int8", "int4", *["float8"] * 5, *["int4"] * 3, "bytea"]
_FIRST_STEP, _LAST_STEP = -(2**63), 2**63 - 1
_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
_ROW = np.dtype(
    [
        ("fields", ">i2"),
        ("series_bytes", ">i4"),
        ("series", ">i4"),
        ("segment_bytes", ">i4"),
        ("segment", ">i2"),
        ("step_bytes", ">i4"),
        ("step", ">i8"),
        ("value_bytes", ">i4"),
        ("value", ">f8"),
    ]
)


class Spans(NamedTuple):
    """The inclusive steps that groups of points of one (series, segment) cover: parallel arrays."""

    series: NDArray[np.int32]
    segments: NDArray[np.int32]
    los: NDArray[np.int64]
    his: NDArray[np.int64]

    def parameters(self) -> dict[str, list[int]]:
        """Query parameters."""
        return {name: getattr(self, name).tolist() for name in self._fields}


@dataclass(frozen=True, kw_only=True)
class Points:
    """Parallel arrays, one entry a point."""

    series: NDArray[np.int32]
    segments: NDArray[np.int32]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, index: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Points:
        return Points(
            series=self.series[index],
            segments=self.segments[index],
            steps=self.steps[index],
            values=self.values[index],
        )

    @classmethod
    def join(cls, parts: Sequence[Points]) -> Points:
        if not parts:
            return cls(
                series=np.empty(0, np.int32),
                segments=np.empty(0, np.int32),
                steps=np.empty(0, np.int64),
                values=np.empty(0, np.float64),
            )
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def newest(self) -> Points:
        """Sorted by (series, segment, step), of equal keys the one that stood last."""
        order = np.lexsort((self.steps, self.segments, self.series))
        points = self.take(order)
        if len(points) < 2:
            return points
        same = (points.series[1:] == points.series[:-1]) & (points.segments[1:] == points.segments[:-1])
        return points.take(np.append(~(same & (points.steps[1:] == points.steps[:-1])), True))

    def bounds(self) -> NDArray[np.intp]:
        """Where the groups of equal (series, segment) of sorted points begin, and the end of the last one."""
        change = (np.diff(self.series) != 0) | (np.diff(self.segments) != 0)
        return np.concatenate([[0], np.flatnonzero(change) + 1, [len(self)]]) if len(self) else np.zeros(1, np.intp)

    def groups(self) -> Iterator[Points]:
        """One part for each (series, segment) of sorted points."""
        for lo, hi in itertools.pairwise(self.bounds().tolist()):
            yield self.take(slice(lo, hi))

    def spans(self) -> Spans:
        """Where the groups of sorted points lie."""
        bounds = self.bounds()
        first, last = bounds[:-1], bounds[1:] - 1
        return Spans(self.series[first], self.segments[first], self.steps[first], self.steps[last])


def lock_run(connection: sa.Connection, run_id: str) -> None:
    """Until the transaction ends nobody else loads or seals points of this run."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(f"points:{run_id}", 0))))


def write(connection: sa.Connection, points: Points) -> None:
    """Store points of one run, later ones replacing earlier ones of the same (series, segment, step).

    At most once a transaction.
    """
    points = points.newest()
    counts = np.diff(points.bounds())
    direct = counts >= DIRECT_CHUNK_POINTS
    if direct.any():
        direct &= ~_occupied(connection, points.spans())
    chosen = np.repeat(direct, counts)
    _insert_chunks(connection, list(points.take(chosen).groups()))
    _upsert_tail(connection, points.take(~chosen))


def read(connection: sa.Connection, series: Sequence[int], lo: int | None, hi: int | None) -> Points:
    """Both tiers of these series between the inclusive steps; chunks first, so that `newest` prefers the tail."""
    lo, hi = _FIRST_STEP if lo is None else lo, _LAST_STEP if hi is None else hi
    where = {"series": list(series), "lo": lo, "hi": hi}
    points = Points.join([*_read_chunks(connection, where), _read_tail(connection, where)])
    return points.take((points.steps >= lo) & (points.steps <= hi))


def seal(connection: sa.Connection, series: Sequence[int]) -> int:
    """Move the tail of these series into chunks and fill small chunks up; reads see no difference.

    Returns how many points left the tail.
    """
    tail = _take_tail(connection, series)
    old = _take_unfilled(connection, series, tail.spans())
    _insert_chunks(connection, list(Points.join([*old, tail]).newest().groups()))
    return len(tail)


def _occupied(connection: sa.Connection, spans: Spans) -> NDArray[np.bool_]:
    """For each span: does one of the tiers hold something in it?"""
    query = """
        SELECT EXISTS (SELECT FROM chunk WHERE series_id = s.series AND chunk.segment = s.segment
                       AND step_lo <= s.hi AND step_hi >= s.lo)
            OR EXISTS (SELECT FROM point WHERE series_id = s.series AND point.segment = s.segment
                       AND step BETWEEN s.lo AND s.hi)
        FROM unnest(%(series)s::int[], %(segments)s::smallint[], %(los)s::bigint[], %(his)s::bigint[])
            WITH ORDINALITY AS s (series, segment, lo, hi, position)
        ORDER BY s.position
    """
    rows = driver(connection).execute(query, spans.parameters()).fetchall()
    return np.array([row[0] for row in rows], dtype=np.bool_)


def _take_tail(connection: sa.Connection, series: Sequence[int]) -> Points:
    """Remove and return the tail of these series, sorted."""
    tail = _read_tail(connection, {"series": list(series), "lo": _FIRST_STEP, "hi": _LAST_STEP})
    driver(connection).execute("DELETE FROM point WHERE series_id = ANY(%s)", [list(series)])
    return tail.newest()


def _take_unfilled(connection: sa.Connection, series: Sequence[int], spans: Spans) -> list[Points]:
    """Remove and return, of each (series, segment), the chunks from the first one on that is not full or meets a span.

    A single unfilled chunk at the end that meets nothing stays: there is nothing to join it with.
    """
    statement = """
        WITH span AS (
            SELECT * FROM unnest(%(series)s::int[], %(segments)s::smallint[], %(los)s::bigint[], %(his)s::bigint[])
            AS s (series, segment, lo, hi)
        ), mine AS (
            SELECT c.series_id, c.segment, c.step_lo,
                   n < %(full)s AS unfilled, lead(c.step_lo) OVER w IS NULL AS is_last,
                   EXISTS (SELECT FROM span WHERE series = c.series_id AND span.segment = c.segment
                           AND span.hi >= c.step_lo AND (span.lo <= c.step_hi OR n < %(full)s)) AS met
            FROM chunk c WHERE c.series_id = ANY(%(all)s)
            WINDOW w AS (PARTITION BY c.series_id, c.segment ORDER BY c.step_lo)
        ), start AS (
            SELECT series_id, segment, min(step_lo) AS step_lo FROM mine
            WHERE met OR unfilled AND NOT is_last GROUP BY series_id, segment
        )
        DELETE FROM chunk USING start
        WHERE chunk.series_id = start.series_id AND chunk.segment = start.segment AND chunk.step_lo >= start.step_lo
        RETURNING chunk.series_id, chunk.segment, chunk.payload
    """
    parameters = spans.parameters() | {"all": list(series), "full": chunks.CHUNK_POINTS}
    with driver(connection).cursor(binary=True) as cursor:
        cursor.execute(statement, parameters)
        return [_unpacked(*row) for row in cursor]


def _insert_chunks(connection: sa.Connection, groups: Sequence[Points]) -> None:
    """Each group: points of one (series, segment), ascending steps, overlapping no stored chunk."""
    columns = [field.name for field in dataclasses.fields(chunks.Header)]
    names = ", ".join(["series_id", "segment", *columns, "payload"])
    if not groups:
        return
    statement = f"COPY chunk ({names}) FROM STDIN (FORMAT BINARY)"
    with driver(connection).cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(_CHUNK_TYPES)
        for group in groups:
            for lo in range(0, len(group), chunks.CHUNK_POINTS):
                part = group.take(slice(lo, lo + chunks.CHUNK_POINTS))
                head = dataclasses.astuple(chunks.header(part.steps, part.values))
                payload = chunks.encode(part.steps, part.values)
                copy.write_row((int(part.series[0]), int(part.segments[0]), *head, payload))


def _upsert_tail(connection: sa.Connection, points: Points) -> None:
    if not len(points):
        return
    rows = np.empty(len(points), dtype=_ROW)
    rows["fields"], rows["series_bytes"], rows["segment_bytes"] = 4, 4, 2
    rows["step_bytes"], rows["value_bytes"] = 8, 8
    rows["series"], rows["segment"] = points.series, points.segments
    rows["step"], rows["value"] = points.steps, points.values
    with driver(connection).cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE IF NOT EXISTS point_stage (LIKE point) ON COMMIT DELETE ROWS")
        with cursor.copy("COPY pg_temp.point_stage FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_COPY_HEADER + rows.tobytes() + _COPY_TRAILER)
        cursor.execute(
            "INSERT INTO point SELECT * FROM pg_temp.point_stage ON CONFLICT (series_id, segment, step)"
            " DO UPDATE SET value = excluded.value WHERE point.value IS DISTINCT FROM excluded.value"
        )


def _read_tail(connection: sa.Connection, where: Mapping[str, object]) -> Points:
    query = """
        COPY (SELECT series_id, segment, step, value FROM point
              WHERE series_id = ANY(%(series)s) AND step BETWEEN %(lo)s AND %(hi)s) TO STDOUT (FORMAT BINARY)
    """
    with driver(connection).cursor() as cursor, cursor.copy(query, where) as copy:
        raw = b"".join(bytes(block) for block in copy)
    body = len(raw) - len(_COPY_HEADER) - len(_COPY_TRAILER)
    rows = np.frombuffer(raw, dtype=_ROW, count=body // _ROW.itemsize, offset=len(_COPY_HEADER))
    return Points(
        series=rows["series"].astype(np.int32),
        segments=rows["segment"].astype(np.int32),
        steps=rows["step"].astype(np.int64),
        values=rows["value"].astype(np.float64),
    )


def _read_chunks(connection: sa.Connection, where: Mapping[str, object]) -> list[Points]:
    query = """
        SELECT series_id, segment, payload FROM chunk
        WHERE series_id = ANY(%(series)s) AND step_hi >= %(lo)s AND step_lo <= %(hi)s
    """
    with driver(connection).cursor(binary=True) as cursor:
        cursor.execute(query, where)
        return [_unpacked(*row) for row in cursor]


def _unpacked(series: int, segment: int, payload: bytes) -> Points:
    steps, values = chunks.decode(payload)
    return Points(
        series=np.full(len(steps), series, np.int32),
        segments=np.full(len(steps), segment, np.int32),
        steps=steps,
        values=values,
    )
