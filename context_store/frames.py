"""The hot tail: one row a frame, which is what one `log` call measured at one step.

A frame holds the ids of its series, ascending and packed, and their values as big-endian float8 in that order, so
that a frame of a thousand series is one row, and one series of it is a `substring`. Its key is the hash of its
content: the same frame again is no new row, the same step with other values is.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
import zstandard
from numpy.typing import NDArray

from context_store.arrays import Points
from context_store.database import driver

_RAW, _PACKED = b"\x00", b"\x01"
_STATEMENT_BYTES = 2**24  # of values in one statement
_VALUE_BYTES = 8
# Big-endian raw ids and values, so that SQL can make the same key: md5(int4send(id) || ... || float8send(value) ...).
_ID, _VALUE = np.dtype(">i4"), np.dtype(">f8")


@dataclass(frozen=True)
class SeriesSet:
    """The series of a frame. `order[i]`: where the i-th smallest id stood in what was logged; None: it is ascending."""

    ids: NDArray[np.int32]
    packed: bytes
    order: NDArray[np.intp] | None

    @classmethod
    def of(cls, ids: Sequence[int]) -> SeriesSet:
        """Of different ids in the order in which their values will come."""
        given = np.array(ids, dtype=np.int32)
        order = np.argsort(given)
        return cls(given[order], pack(given[order]), None if (np.diff(order) == 1).all() else order)

    def frame(self, step: int, values: bytes) -> Frame:
        """`values`: big-endian float8, in the order in which the ids were given."""
        if self.order is not None:
            values = np.frombuffer(values, _VALUE)[self.order].tobytes()
        key = hashlib.md5(self.ids.astype(_ID).tobytes(), usedforsecurity=False)
        key.update(values)
        return Frame(step, self, values, uuid.UUID(bytes=key.digest()))


class Frame(NamedTuple):
    step: int
    series: SeriesSet
    values: bytes
    key: uuid.UUID

    def array(self) -> NDArray[np.float64]:
        """The values in the order of `series.ids`."""
        return np.frombuffer(self.values, _VALUE).astype(np.float64)


def pack(ids: NDArray[np.int32]) -> bytes:
    """Ascending ids; a thousand neighbours take some twenty bytes."""
    return _PACKED + zstandard.ZstdCompressor().compress(np.diff(ids, prepend=np.int32(0)).astype("<i4").tobytes())


def unpack(packed: bytes) -> NDArray[np.int32]:
    if packed[:1] == _RAW:
        return np.frombuffer(packed, _ID, offset=1).astype(np.int32)
    raw = zstandard.ZstdDecompressor().decompress(packed[1:])
    return np.cumsum(np.frombuffer(raw, "<i4"), dtype=np.int32)


def packed_values(values: Iterable[float]) -> bytes:
    """As a frame wants them. Raises struct.error or OverflowError for what is no number a float8 can hold."""
    numbers = list(values)
    return struct.pack(f">{len(numbers)}d", *numbers)


class Inserted(NamedTuple):
    """How many points were new, and what the segment's tail holds now."""

    num_points: int
    tail_frames: int
    tail_points: int


def insert(connection: sa.Connection, number: int, segment: int, frames: Sequence[Frame]) -> Inserted:
    """Add frames, at least one, of a segment that has a row in `tail`; those that are there already stay."""
    new, row = 0, None
    for part in _parts(frames):
        parameters = {
            "number": number,
            "segment": segment,
            "steps": [frame.step for frame in part],
            "keys": [frame.key for frame in part],
            "series": [frame.series.packed for frame in part],
            "values": [frame.values for frame in part],
        }
        row = driver(connection).execute(_INSERT, parameters, binary=True).fetchone()
        assert row is not None
        new += row[0]
    assert row is not None
    return Inserted(new, row[1], row[2])


def read(connection: sa.Connection, number: int, series: NDArray[np.int32], lo: int, hi: int) -> Points:
    """The tail of these series of a run between the inclusive steps, in order of arrival at equal keys."""
    raw = packed_sets(connection, number)
    sets = [unpack(packed) for packed in raw]
    wanted = [np.flatnonzero(np.isin(ids, series)) for ids in sets]
    some = [index for index, columns in enumerate(wanted) if len(columns)]
    if not some:
        return Points.join([])
    statement = """
        SELECT w.position, f.segment, f.step, f.seq, substring(f.values FROM w.skip + 1 FOR w.size)
        FROM unnest(%(sets)s::bytea[], %(skips)s::int[], %(sizes)s::int[]) WITH ORDINALITY
            AS w (series, skip, size, position)
        JOIN frame f ON f.series = w.series
        WHERE f.run_number = %(number)s AND f.step BETWEEN %(lo)s AND %(hi)s ORDER BY 1, 2, 3, 4
    """
    parameters: Mapping[str, object] = {
        "sets": [raw[index] for index in some],
        "skips": [_VALUE_BYTES * int(wanted[index][0]) for index in some],
        "sizes": [_VALUE_BYTES * int(wanted[index][-1] - wanted[index][0] + 1) for index in some],
        "number": number,
        "lo": lo,
        "hi": hi,
    }
    with driver(connection).cursor(binary=True) as cursor:
        cursor.execute(statement, parameters)
        groups = [
            _grid(sets[some[position - 1]], wanted[some[position - 1]], list(rows))
            for position, rows in itertools.groupby(cursor, key=lambda row: row[0])
        ]
    return _by_arrival(groups)


def packed_sets(connection: sa.Connection, number: int) -> list[bytes]:
    """The different sets of series in the run's tail."""
    query = "SELECT DISTINCT series FROM frame WHERE run_number = %s"
    return [row[0] for row in driver(connection).execute(query, [number], binary=True)]


def points_of(segment: int, frames: Sequence[Frame]) -> Points:
    """What `read` would give for frames of one segment, before they are stored."""
    numbered: dict[bytes, list[tuple[int, Frame]]] = {}
    for sequence, frame in enumerate(frames):
        numbered.setdefault(frame.series.packed, []).append((sequence, frame))
    groups = []
    for same in numbered.values():
        ids = same[0][1].series.ids
        rows = [(0, segment, frame.step, sequence, frame.values) for sequence, frame in same]
        groups.append(_grid(ids, np.arange(len(ids)), rows))
    return _by_arrival(groups)


def _parts(frames: Sequence[Frame]) -> Iterator[Sequence[Frame]]:
    """Consecutive frames of at most `_STATEMENT_BYTES` together, at least one."""
    start = size = 0
    for index, frame in enumerate(frames):
        if size and size + len(frame.values) > _STATEMENT_BYTES:
            yield frames[start:index]
            start, size = index, 0
        size += len(frame.values)
    yield frames[start:]


class _Grid(NamedTuple):
    points: Points
    arrival: NDArray[np.int64]


def _grid(ids: NDArray[np.int32], columns: NDArray[np.intp], rows: Sequence[tuple[int, int, int, int, bytes]]) -> _Grid:
    """Points of frames (_, segment, step, sequence, values) of one set, of the ids at `columns`, series by series.

    The values of a row begin with the first of the columns.
    """
    first, k, r = columns[0], len(columns), len(rows)
    values = np.frombuffer(b"".join([row[4] for row in rows]), _VALUE).reshape(r, -1)
    if values.shape[1] != k:
        values = values[:, columns - first]
    points = Points(
        series=np.repeat(ids[columns], r),
        segments=np.tile(np.array([row[1] for row in rows], np.int32), k),
        steps=np.tile(np.array([row[2] for row in rows], np.int64), k),
        values=np.ascontiguousarray(values.T, dtype=np.float64).reshape(-1),
    )
    return _Grid(points, np.tile(np.array([row[3] for row in rows], np.int64), k))


def _by_arrival(groups: Sequence[_Grid]) -> Points:
    """Joined; several sets may share a series, and then the order between their frames counts."""
    points = Points.join([group.points for group in groups])
    if len(groups) < 2:
        return points
    return points.take(np.argsort(np.concatenate([group.arrival for group in groups]), kind="stable"))


_INSERT = """
    WITH fresh AS (
        INSERT INTO frame (run_number, segment, step, key, series, values)
        SELECT %(number)s, %(segment)s, given.* FROM unnest(
            %(steps)s::bigint[], %(keys)s::uuid[], %(series)s::bytea[], %(values)s::bytea[]) AS given
        ON CONFLICT DO NOTHING RETURNING octet_length(values) / 8 AS n
    ), counted AS (SELECT count(*) AS frames, coalesce(sum(n), 0)::bigint AS points FROM fresh)
    UPDATE tail SET num_frames = num_frames + frames, num_points = num_points + points FROM counted
    WHERE run_number = %(number)s AND segment = %(segment)s RETURNING points, num_frames, num_points
"""
