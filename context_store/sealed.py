"""The sealed tier: chunks of one (series, segment) that never overlap, merged as new points come.

Small chunks at the end of a series are merged into larger ones like the levels of a log-structured tree: a chunk is
written again only together with at least half as many new points, so every point a few times at most.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store import chunks
from context_store.arrays import FIRST_STEP, Points, Spans
from context_store.chunks import BLOCK_CHUNKS, CHUNK_POINTS
from context_store.database import driver

_FULL = CHUNK_POINTS // 2  # a chunk with this many points is not written again for more to come
_HEADER = [field.name for field in dataclasses.fields(chunks.Header)]
# series_id, segment, step_lo, step_hi, n, min, max, sum, first, last, nan_count, pos_inf_count, neg_inf_count, payload
_CHUNK_TYPES = ["int4", "int2", "int8", "int8", "int4", *["float8"] * 5, *["int4"] * 3, "bytea"]


class _Place(NamedTuple):
    """A stored chunk."""

    series: int
    segment: int
    step_lo: int
    step_hi: int
    n: int


def read(connection: sa.Connection, series: Sequence[int], segments: Sequence[int], lo: int, hi: int) -> Points:
    """Points of these series between the inclusive steps, sorted by (series, segment, step)."""
    if not segments:
        return Points.join([])
    parameters = {"series": sorted(series), "segments": list(segments), "lo": lo, "hi": hi}
    query = _ALL_TO if lo == FIRST_STEP else _BETWEEN
    rows = driver(connection).execute(query, parameters, binary=True).fetchall()
    return _unpacked(rows).between(lo, hi)


def merge(connection: sa.Connection, points: Points, *, last: bool = False) -> int:
    """Add points to the chunks; returns how many there were not yet. `last`: no more are expected to come.

    Every run's chunks have one writer at a time (`points.lock_run`).
    """
    points = points.distinct()
    if not len(points):
        return 0
    old, between = _chosen(_near(connection, points.spans()), points, last=last)
    stored = _payloads(connection, old)
    if stored.same(points):
        return 0
    joined = Points.join([stored, points]).distinct() if len(stored) else points
    new = len(joined) - len(stored)
    if new:
        if len(stored):
            joined, old = _changed(joined, stored, old)
        _delete(connection, old)
        _insert(connection, joined, between)
        _advance_latest(connection, points)
    return new


def _near(connection: sa.Connection, spans: Spans) -> dict[tuple[int, int], list[_Place]]:
    """Of each span's (series, segment): the chunks from the last full one before the span on to its end."""
    query = """
        SELECT c.series_id, c.segment, c.step_lo, c.step_hi, c.n
        FROM unnest(%(series)s::int[], %(segments)s::smallint[], %(los)s::bigint[], %(his)s::bigint[])
            AS s (series, segment, lo, hi)
        CROSS JOIN LATERAL (
            SELECT * FROM chunk WHERE series_id = s.series AND segment = s.segment AND step_lo <= s.hi AND step_lo >= (
                SELECT coalesce(max(step_lo), -9223372036854775808) FROM chunk
                WHERE series_id = s.series AND segment = s.segment AND step_lo <= s.lo AND n >= %(full)s)
        ) AS c ORDER BY c.series_id, c.segment, c.step_lo
    """
    found: dict[tuple[int, int], list[_Place]] = defaultdict(list)
    rows = driver(connection).execute(query, spans.parameters() | {"full": _FULL}, binary=True)
    for row in rows:
        place = _Place(*row)
        found[place.series, place.segment].append(place)
    return found


def _chosen(
    near: dict[tuple[int, int], list[_Place]], points: Points, *, last: bool
) -> tuple[list[_Place], list[_Place]]:
    """The chunks to write again (around new points, and small ones before them), and those that lie between untouched.

    So a late point costs its own chunk, not all chunks from there to the newest point.
    """
    chosen: list[_Place] = []
    between: list[_Place] = []
    if not near:
        return chosen, between
    bounds = points.bounds().tolist()
    for start, end in itertools.pairwise(bounds):
        steps, n = points.steps[start:end], end - start
        for place in reversed(near.get((int(points.series[start]), int(points.segments[start])), [])):
            if place.step_hi >= steps[0]:
                met = np.searchsorted(steps, place.step_lo) < np.searchsorted(steps, place.step_hi, side="right")
                (chosen if met else between).append(place)
            elif place.n >= _FULL or between or not (last or place.n < 2 * n):
                break
            else:
                chosen.append(place)
                n += place.n
    return chosen, between


def _payloads(connection: sa.Connection, places: Sequence[_Place]) -> Points:
    if not places:
        return Points.join([])
    query = """
        SELECT series_id, segment, payload FROM chunk
        JOIN unnest(%(series)s::int[], %(segments)s::smallint[], %(los)s::bigint[]) AS p (series_id, segment, step_lo)
        USING (series_id, segment, step_lo) ORDER BY series_id, segment, step_lo
    """
    return _unpacked(driver(connection).execute(query, _keys(places), binary=True).fetchall())


def _changed(joined: Points, stored: Points, old: list[_Place]) -> tuple[Points, list[_Place]]:
    """Without the groups to which nothing new came."""
    spans, before = joined.spans(), defaultdict(int)
    lengths = np.diff(joined.bounds())
    stored_spans, stored_lengths = stored.spans(), np.diff(stored.bounds())
    for series, segment, n in zip(
        stored_spans.series.tolist(), stored_spans.segments.tolist(), stored_lengths.tolist(), strict=True
    ):
        before[series, segment] = n
    keys = list(zip(spans.series.tolist(), spans.segments.tolist(), strict=True))
    changed = np.array([before[key] != n for key, n in zip(keys, lengths.tolist(), strict=True)], np.bool_)
    names = {key for key, differs in zip(keys, changed.tolist(), strict=True) if differs}
    return joined.take(np.repeat(changed, lengths)), [place for place in old if (place.series, place.segment) in names]


def _delete(connection: sa.Connection, places: Sequence[_Place]) -> None:
    if places:
        statement = """
            DELETE FROM chunk USING unnest(%(series)s::int[], %(segments)s::smallint[], %(los)s::bigint[])
                AS p (series, segment, lo)
            WHERE series_id = p.series AND chunk.segment = p.segment AND step_lo = p.lo
        """
        driver(connection).execute(statement, _keys(places))


def _insert(connection: sa.Connection, points: Points, between: Sequence[_Place]) -> None:
    """Distinct points of whole groups, which meet no stored chunk; those `between` stay where they are."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for start, end in _pieces(points, between):
        by_length[end - start].append(start)
    statement = f"COPY chunk (series_id, segment, {', '.join(_HEADER)}, payload) FROM STDIN (FORMAT BINARY)"
    with driver(connection).cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(_CHUNK_TYPES)
        for n, starts in by_length.items():
            for first in range(0, len(starts), BLOCK_CHUNKS):
                for row in _rows(points, np.array(starts[first : first + BLOCK_CHUNKS]), n):
                    copy.write_row(row)


def _rows(points: Points, starts: NDArray[np.intp], n: int) -> Iterator[tuple[object, ...]]:
    """One chunk row for each start: the n points from there on."""
    grid = starts[:, None] + np.arange(n)
    steps, values = points.steps[grid], points.values[grid]
    series, segments = points.series[starts].tolist(), points.segments[starts].tolist()
    heads, payloads = chunks.headers(steps, values), chunks.encode(steps, values)
    for one, segment, head, payload in zip(series, segments, heads, payloads, strict=True):
        yield one, segment, *(getattr(head, name) for name in _HEADER), payload


def _pieces(points: Points, between: Sequence[_Place]) -> Iterator[tuple[int, int]]:
    """Cuts groups at the chunks `between`, and then into equal parts of at most CHUNK_POINTS points.

    Points of one step stay together.
    """
    bounds = points.bounds()
    spans = points.spans()
    keys = zip(spans.series.tolist(), spans.segments.tolist(), strict=True)
    groups = dict(zip(keys, itertools.pairwise(bounds.tolist()), strict=True))
    cuts = set()
    for place in between:
        start, end = groups.get((place.series, place.segment), (0, 0))
        cuts.add(start + int(np.searchsorted(points.steps[start:end], place.step_lo)))
    for start, end in itertools.pairwise(sorted(cuts.union(bounds.tolist()))):
        num_parts = -(-(end - start) // CHUNK_POINTS)
        begin = start
        for part in range(1, num_parts):
            cut = start + part * (end - start) // num_parts
            if points.steps[cut - 1] == points.steps[cut]:
                cut = begin + int(np.searchsorted(points.steps[begin:end], points.steps[cut]))
            if cut > begin:
                yield begin, cut
                begin = cut
        yield begin, end


def _advance_latest(connection: sa.Connection, points: Points) -> None:
    """The newest sealed value of each series."""
    ends = np.append(np.flatnonzero(np.diff(points.series)), len(points) - 1)
    statement = """
        INSERT INTO latest (series_id, segment, step, value)
        SELECT * FROM unnest(%(series)s::int[], %(segments)s::smallint[], %(steps)s::bigint[], %(values)s::float8[])
        ON CONFLICT (series_id) DO UPDATE
        SET segment = excluded.segment, step = excluded.step, value = excluded.value
        WHERE (latest.segment, latest.step) <= (excluded.segment, excluded.step)
    """
    newest = points.take(ends)
    parameters = {name: getattr(newest, name).tolist() for name in ("series", "segments", "steps", "values")}
    driver(connection).execute(statement, parameters, binary=True)


def _keys(places: Sequence[_Place]) -> dict[str, list[int]]:
    return {
        "series": [place.series for place in places],
        "segments": [place.segment for place in places],
        "los": [place.step_lo for place in places],
    }


def _unpacked(rows: Sequence[tuple[int, int, bytes]]) -> Points:
    """Of chunks that stand in order."""
    if not rows:
        return Points.join([])
    lengths, steps, values = chunks.decode([row[2] for row in rows])
    if rows[0][:2] == rows[-1][:2]:
        return Points.of(rows[0][0], rows[0][1], steps, values)
    return Points(
        series=np.repeat(np.array([row[0] for row in rows], np.int32), lengths),
        segments=np.repeat(np.array([row[1] for row in rows], np.int32), lengths),
        steps=steps,
        values=values,
    )


_ALL_TO = """
    SELECT series_id, segment, payload FROM chunk
    WHERE series_id = ANY(%(series)s) AND step_lo <= %(hi)s ORDER BY series_id, segment, step_lo
"""
# Of each series and segment, from the last chunk that begins before `lo` on: chunks before it are not looked at.
_BETWEEN = """
    SELECT c.series_id, c.segment, c.payload
    FROM unnest(%(series)s::int[]) AS s (id) CROSS JOIN unnest(%(segments)s::smallint[]) AS g (number)
    CROSS JOIN LATERAL (
        SELECT coalesce(max(step_lo), %(lo)s) AS step_lo FROM chunk
        WHERE series_id = s.id AND segment = g.number AND step_lo <= %(lo)s
    ) AS start
    JOIN chunk c ON c.series_id = s.id AND c.segment = g.number AND c.step_lo BETWEEN start.step_lo AND %(hi)s
    ORDER BY c.series_id, c.segment, c.step_lo
"""
