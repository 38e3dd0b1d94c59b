"""Reads over many series at once: matrices, a statistic across the model, non-finite points, windows, latest values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store import chunks, frames
from context_store.arrays import FIRST_STEP, LAST_STEP, Points
from context_store.database import driver
from context_store.lineage import Lineage
from context_store.models import SeriesRow
from context_store.records import AlignedWindows, NonFinite, SeriesMatrix, StatisticMatrix


class Place(NamedTuple):
    """A series and where in the model it was measured."""

    id: int
    name: str
    module: str
    layer: int | None
    expert: int | None
    rank: int | None


def matrix_of(names: Sequence[str], ids: Sequence[int | None], found: Points) -> SeriesMatrix:
    """Of distinct points sorted by (series, segment, step); the last of a step counts. An id None: no such series."""
    steps, values, present = _grid(ids, found)
    return SeriesMatrix(names=tuple(names), steps=steps, values=values, present=present)


def statistic_matrix(statistic: str, places: Sequence[Place], found: Points) -> StatisticMatrix:
    steps, values, present = _grid([place.id for place in places], found)
    return StatisticMatrix(
        statistic=statistic,
        names=tuple(place.name for place in places),
        modules=tuple(place.module for place in places),
        layers=tuple(place.layer for place in places),
        experts=tuple(place.expert for place in places),
        ranks=tuple(place.rank for place in places),
        steps=steps,
        values=values,
        present=present,
    )


def places(
    connection: sa.Connection, run_id: str, statistic: str | None, where: Mapping[str, str | int | None]
) -> list[Place]:
    """Series of a statistic (None: of all) by (layer, expert, rank, module), narrowed by what is given in `where`."""
    query = sa.select(*(getattr(SeriesRow, name) for name in Place._fields)).where(SeriesRow.run_id == run_id)
    if statistic is not None:
        query = query.where(SeriesRow.statistic == statistic)
    for column, value in where.items():
        if value is not None:
            query = query.where(getattr(SeriesRow, column) == value)
    numbers = [column.nulls_first() for column in (SeriesRow.layer, SeriesRow.expert, SeriesRow.rank)]
    rows = connection.execute(query.order_by(*numbers, SeriesRow.module, SeriesRow.name))
    return [Place(*row) for row in rows]


def first_non_finite(
    connection: sa.Connection, run_id: str, statistic: str | None, lineage: Lineage
) -> tuple[NonFinite, ...]:
    """As `SeriesStore.first_non_finite`."""
    known = {place.id: place for place in places(connection, run_id, statistic, {})}
    if not known:
        return ()
    parts = _sealed_non_finite(connection, list(known)), _tail_non_finite(connection, run_id, list(known))
    odd = Points.join(parts)
    odd = lineage.canonical(odd)
    odd = odd.take(np.lexsort((odd.segments, odd.steps, odd.series)))
    odd = odd.take(np.append(True, np.diff(odd.series) != 0)[: len(odd)])
    columns = (column.tolist() for column in (odd.series, odd.steps, odd.segments, odd.values))
    found = [
        NonFinite(name=known[one].name, layer=known[one].layer, step=step, segment=segment, value=value)
        for one, step, segment, value in zip(*columns, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (one.step, -1 if one.layer is None else one.layer, one.name)))


def aligned(
    names: tuple[str, ...], steps: Sequence[int], before: int, after: int, data: SeriesMatrix | None
) -> AlignedWindows:
    """Windows of a matrix that covers them all."""
    offsets = np.arange(-before, after + 1, dtype=np.int64)
    centres = np.array(steps, dtype=np.int64)
    shape = len(centres), len(names), len(offsets)
    values, present = np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_)
    if data is not None and len(data.steps):
        wanted = centres[:, None] + offsets
        columns = np.minimum(np.searchsorted(data.steps, wanted), len(data.steps) - 1)
        there = data.steps[columns] == wanted
        values = np.where(there[:, None], data.values[:, columns].transpose(1, 0, 2), np.nan)
        present = there[:, None] & data.present[:, columns].transpose(1, 0, 2)
    return AlignedWindows(names=names, steps=centres, offsets=offsets, values=values, present=present)


def latest(
    connection: sa.Connection, run_ids: Sequence[str], names: Sequence[str] | None
) -> dict[str, dict[str, float]]:
    """As `SeriesStore.latest`: the sealed values, replaced by those of the tail where it is not older."""
    parameters = {"runs": list(run_ids), "names": None if names is None else list(names)}
    known = driver(connection).execute(_LATEST, parameters, binary=True).fetchall()
    tail = _newest_of_tails(connection, [row[1] for row in known if row[2]])
    found: dict[str, dict[str, float]] = {run_id: {} for run_id in run_ids}
    for run_id, _, has_tail, names_of_run, ids, segments, steps, values in known:
        mine = found[run_id]
        for name, one, segment, step, value in zip(names_of_run, ids, segments, steps, values, strict=True):
            newest = tail.get(one) if has_tail else None
            if newest is not None and (segment is None or newest[:2] >= (segment, step)):
                mine[name] = newest[2]
            elif segment is not None:
                mine[name] = value
    return found


def _newest_of_tails(connection: sa.Connection, numbers: list[int]) -> dict[int, tuple[int, int, float]]:
    """Segment, step and value of the newest point of each series that the tails of these runs have."""
    newest: dict[int, tuple[int, int, float]] = {}
    if not numbers:
        return newest
    for packed, segment, step, raw in driver(connection).execute(_NEWEST_FRAMES, [numbers], binary=True):
        for one, value in zip(frames.unpack(packed).tolist(), np.frombuffer(raw, ">f8").tolist(), strict=True):
            if one not in newest or newest[one][:2] <= (segment, step):
                newest[one] = segment, step, value
    return newest


def _grid(ids: Sequence[int | None], found: Points) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Steps [S], values [N, S] and what is present; rows as in `ids`."""
    bounds = found.bounds()
    n = int(bounds[1]) if len(bounds) > 1 else 0
    if n and (np.diff(bounds) == n).all() and len(np.unique(found.series[bounds[:-1]])) == len(bounds) - 1:
        numbers = found.steps.reshape(-1, n)
        if (numbers == numbers[0]).all() and (np.diff(numbers[0]) > 0).all():  # the usual case: all at the same steps
            rows = _rows(ids, found.series[bounds[:-1]])
            values, present = _empty(len(ids), n)
            values[rows], present[rows] = found.values.reshape(-1, n), True
            return numbers[0].copy(), values, present
    found = found.take(np.argsort(found.segments, kind="stable"))  # the newest segment is assigned last
    steps, columns = np.unique(found.steps, return_inverse=True)
    values, present = _empty(len(ids), len(steps))
    if len(found):
        rows = _rows(ids, found.series)
        values[rows, columns], present[rows, columns] = found.values, True
    return steps, values, present


def _empty(n: int, s: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    return np.full((n, s), np.nan), np.zeros((n, s), dtype=np.bool_)


def _rows(ids: Sequence[int | None], series: NDArray[np.int32]) -> NDArray[np.intp]:
    """Where in `ids` each of these series stands."""
    known = [(one, row) for row, one in enumerate(ids) if one is not None]
    order = np.array(sorted(known), dtype=np.int64)
    rows: NDArray[np.intp] = order[np.searchsorted(order[:, 0], series), 1]
    return rows


def _sealed_non_finite(connection: sa.Connection, ids: Sequence[int]) -> Points:
    """All non-finite points of the first chunk of each (series, segment) that has one."""
    parts = []
    for one, segment, payload in driver(connection).execute(_FIRST_ODD_CHUNKS, [list(ids)], binary=True):
        _, steps, values = chunks.decode([payload])
        parts.append(Points.of(one, segment, steps, values))
    points = Points.join(parts)
    return points.take(~np.isfinite(points.values))


def _tail_non_finite(connection: sa.Connection, run_id: str, ids: Sequence[int]) -> Points:
    number = driver(connection).execute("SELECT number FROM run WHERE id = %s", [run_id]).fetchone()
    assert number is not None
    points = frames.read(connection, number[0], np.array(sorted(ids), np.int32), FIRST_STEP, LAST_STEP)
    return points.take(~np.isfinite(points.values))


# One row a run: id, number, whether it has a tail; of its series: names, ids, segment, step and value of the latest.
_LATEST = """
    SELECT run.id, run.number, run.number IN (SELECT run_number FROM tail WHERE num_frames > 0),
        array_agg(s.name), array_agg(s.id), array_agg(l.segment), array_agg(l.step), array_agg(l.value)
    FROM run JOIN series s ON s.run_id = run.id LEFT JOIN latest l ON l.series_id = s.id
    WHERE run.id = ANY(%(runs)s) AND (%(names)s::text[] IS NULL OR s.name = ANY(%(names)s)) GROUP BY run.id
"""
_NEWEST_FRAMES = """
    SELECT series, segment, step, values FROM (
        SELECT DISTINCT ON (run_number, series) series, segment, step, seq, values FROM frame
        WHERE run_number = ANY(%s) ORDER BY run_number, series, segment DESC, step DESC, seq DESC) AS newest
    ORDER BY seq
"""
_FIRST_ODD_CHUNKS = """
    SELECT DISTINCT ON (series_id, segment) series_id, segment, payload FROM chunk
    WHERE series_id = ANY(%s) AND nan_count + pos_inf_count + neg_inf_count > 0
    ORDER BY series_id, segment, step_lo
"""
