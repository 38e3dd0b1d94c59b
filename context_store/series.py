"""Series: exact values over steps, in any order of arrival."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import sqlalchemy as sa

from context_store import points, scans
from context_store.arrays import Points
from context_store.database import Database, driver
from context_store.dictionary import SeriesSets, known_ids, series_ids
from context_store.downsampling import keep_shape
from context_store.frames import Frame, SeriesSet, packed_values
from context_store.lineage import advance, load_lineage
from context_store.models import SeriesRow
from context_store.records import AlignedWindows, NonFinite, SeriesData, SeriesMatrix, StatisticMatrix
from contracts.errors import UserInputError

View = Literal["canonical", "full"]
_SLICE_POINTS = 500_000


class SeriesStore:
    """Points in and out.

    Everything logged is kept, in any order of steps; the same (series, segment, step, value) again adds nothing. The
    canonical view has one value a step: that of the newest segment, and of several in one segment the last that
    arrived. The full view has all of them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sets = SeriesSets()

    # --- writing

    def append(self, run_id: str, logged: Sequence[tuple[int, Mapping[str, float]]], segment: int = 0) -> int:
        """Store (step, values by name) in one transaction; returns how many points are new, 0 for a replay.

        What was returned from is on disk. Raises NotFound for an unknown run and UserInputError for what is no step,
        name or number; then nothing is stored.
        """
        rows = [(step, tuple(values), _packed(step, values)) for step, values in logged if values]
        if not rows:
            return 0
        with self._database.begin() as connection:
            number = points.lock_run(connection, run_id)
            sets = self._sets.resolve(connection, run_id, number, (names for _, names, _ in rows))
            frames: list[Frame] = [sets[names].frame(step, values) for step, names, values in rows]
            new = points.append(connection, number, segment, frames)
            advance(connection, run_id, segment, max(step for step, _, _ in rows))
        self._sets.keep(number, sets)
        return new

    def write(self, run_id: str, matrix: SeriesMatrix, segment: int = 0) -> int:
        """Store whole series at once, as chunks: for imports. Returns how many points are new, 0 for a replay.

        One transaction; memory is bounded by the matrix. Raises as `append` does.
        """
        if len(set(matrix.names)) != len(matrix.names):
            raise UserInputError("the matrix names a series twice", remedy="give each series one row")
        if not matrix.present.any():
            return 0
        with self._database.begin() as connection:
            number = points.lock_run(connection, run_id)
            ids = series_ids(connection, run_id, matrix.names)
            new = points.write(
                connection, number, _slices(matrix, SeriesSet.of([ids[n] for n in matrix.names]), segment)
            )
            advance(connection, run_id, segment, int(matrix.steps[matrix.present.any(axis=0)].max()))
        return new

    def seal(self, run_id: str) -> int:
        """Move the run's hot tail into compressed chunks; returns the number of points. Reads see no difference."""
        return seal_run(self._database, run_id)

    def seal_waiting(self, min_frames: int = 256) -> int:
        """Seal every run with a tail of at least so many frames, run by run; for a process in the background."""
        query = "SELECT DISTINCT run.id FROM tail JOIN run ON number = run_number WHERE num_frames >= %s"
        with self._database.begin() as connection:
            waiting = [row[0] for row in driver(connection).execute(query, [max(1, min_frames)])]
        return sum(seal_run(self._database, run_id) for run_id in waiting)

    # --- reading

    def names(self, run_id: str, statistic: str | None = None, prefix: str | None = None) -> tuple[str, ...]:
        """By statistic, layer, expert."""
        query = sa.select(SeriesRow.name).where(SeriesRow.run_id == run_id)
        if statistic is not None:
            query = query.where(SeriesRow.statistic == statistic)
        if prefix is not None:
            query = query.where(sa.func.starts_with(SeriesRow.name, prefix))
        order = (SeriesRow.statistic, SeriesRow.layer.nulls_first(), SeriesRow.expert.nulls_first(), SeriesRow.name)
        with self._database.read() as connection:
            return tuple(connection.execute(query.order_by(*order)).scalars())

    def read(
        self, run_id: str, name: str, lo: int | None = None, hi: int | None = None, view: View = "canonical"
    ) -> SeriesData:
        """Points between the inclusive steps; empty for a name the run does not have."""
        return self.read_each(run_id, [name], lo, hi, view)[0]

    def read_each(
        self, run_id: str, names: Sequence[str], lo: int | None = None, hi: int | None = None, view: View = "canonical"
    ) -> list[SeriesData]:
        """As `read`, several series at the same moment, in the order of `names`."""
        with self._database.snapshot() as connection:
            ids = known_ids(connection, run_id, names)
            found = points.read(connection, run_id, list(ids.values()), lo, hi)
            if view == "canonical":
                found = load_lineage(connection, run_id).canonical(found)
        found = found.take(np.argsort(found.series, kind="stable"))
        wanted = np.array([ids.get(name, -1) for name in names], np.int32)
        starts, ends = (np.searchsorted(found.series, wanted, side).tolist() for side in ("left", "right"))
        return [
            _one(name, found.take(slice(start, end)), view)
            for name, start, end in zip(names, starts, ends, strict=True)
        ]

    def matrix(self, run_id: str, names: Sequence[str], lo: int | None = None, hi: int | None = None) -> SeriesMatrix:
        """The canonical values of several series in one go."""
        with self._database.snapshot() as connection:
            ids = known_ids(connection, run_id, names)
            found = points.read(connection, run_id, list(ids.values()), lo, hi)
            found = load_lineage(connection, run_id).canonical(found)
        return scans.matrix_of(names, [ids.get(name) for name in names], found)

    def across(
        self,
        run_id: str,
        statistic: str,
        lo: int | None = None,
        hi: int | None = None,
        *,
        module: str | None = None,
        layer: int | None = None,
        expert: int | None = None,
        rank: int | None = None,
    ) -> StatisticMatrix:
        """One statistic over all its layers, experts and ranks (or the given ones) between the inclusive steps."""
        where = {"module": module, "layer": layer, "expert": expert, "rank": rank}
        with self._database.snapshot() as connection:
            places = scans.places(connection, run_id, statistic, where)
            found = points.read(connection, run_id, [place.id for place in places], lo, hi)
            found = load_lineage(connection, run_id).canonical(found)
        return scans.statistic_matrix(statistic, places, found)

    def first_non_finite(self, run_id: str, statistic: str | None = None) -> tuple[NonFinite, ...]:
        """The first canonical NaN or infinity of each series that has one, by (step, layer, name).

        Sealed series are found by the headers of their chunks; only the chunks in question are unpacked.
        """
        with self._database.snapshot() as connection:
            return scans.first_non_finite(connection, run_id, statistic, load_lineage(connection, run_id))

    def around(
        self, run_id: str, names: Sequence[str], steps: Sequence[int], before: int, after: int
    ) -> AlignedWindows:
        """The canonical values from `before` steps before each of `steps` (of changes) to `after` steps after it."""
        data = self.matrix(run_id, names, min(steps) - before, max(steps) + after) if steps else None
        return scans.aligned(tuple(names), steps, before, after, data)

    def downsample(
        self,
        run_id: str,
        name: str,
        buckets: int,
        lo: int | None = None,
        hi: int | None = None,
        view: View = "canonical",
    ) -> SeriesData:
        """With at most four finite points a bucket of steps, in the full view of each segment (`keep_shape`)."""
        return self.downsample_each(run_id, [name], buckets, lo, hi, view)[0]

    def downsample_each(
        self,
        run_id: str,
        names: Sequence[str],
        buckets: int,
        lo: int | None = None,
        hi: int | None = None,
        view: View = "canonical",
    ) -> list[SeriesData]:
        """As `downsample`, several series at the same moment, in the order of `names`."""
        return [_fewer(data, buckets, view) for data in self.read_each(run_id, names, lo, hi, view)]

    def latest(self, run_ids: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, float]]:
        """The last value of the newest segment that has one: `latest[run_id][name]`."""
        with self._database.snapshot() as connection:
            return scans.latest(connection, run_ids, names)


def _one(name: str, found: Points, view: View) -> SeriesData:
    """The points of one series in order; in the canonical view the last that arrived at each step."""
    if len(found) and not (np.diff(found.steps) > 0).all():
        found = found.take(np.lexsort((found.segments, found.steps)))
        if view == "canonical":
            found = found.take(np.append(np.diff(found.steps) != 0, True))
    return SeriesData(name=name, steps=found.steps, values=found.values, segments=found.segments)


def _fewer(data: SeriesData, buckets: int, view: View) -> SeriesData:
    if view == "canonical" or not len(data.steps):
        keep = keep_shape(data.steps, data.values, buckets)
    else:
        parts = [np.flatnonzero(data.segments == segment) for segment in np.unique(data.segments)]
        keep = np.sort(np.concatenate([p[keep_shape(data.steps[p], data.values[p], buckets)] for p in parts]))
    return SeriesData(name=data.name, steps=data.steps[keep], values=data.values[keep], segments=data.segments[keep])


def seal_run(database: Database, run_id: str, *, last: bool = False) -> int:
    """As `SeriesStore.seal`. `last`: the run ended, so small chunks are joined."""
    with database.begin() as connection:
        return points.seal(connection, points.lock_run(connection, run_id), last=last)


def _packed(step: int, values: Mapping[str, float]) -> bytes:
    if not isinstance(step, int | np.integer):
        raise UserInputError(f"the step {step!r} is no whole number", remedy="log whole steps")
    try:
        return packed_values(values.values())
    except (struct.error, OverflowError, TypeError) as error:
        raise UserInputError(
            f"step {step} has a value that is no number: {error}", remedy="log numbers; NaN and infinities are numbers"
        ) from error


def _slices(matrix: SeriesMatrix, series: SeriesSet, segment: int) -> Iterator[Points]:
    """The present points, some rows at a time, in the order of the series' ids."""
    order = np.arange(len(matrix.names)) if series.order is None else series.order
    rows_each = max(1, _SLICE_POINTS // max(1, len(matrix.steps)))
    for start in range(0, len(order), rows_each):
        rows = order[start : start + rows_each]
        present = matrix.present[rows].reshape(-1)
        part = Points(
            series=np.repeat(series.ids[start : start + rows_each], len(matrix.steps)),
            segments=np.full(len(present), segment, np.int32),
            steps=np.tile(np.asarray(matrix.steps, np.int64), len(rows)),
            values=np.asarray(matrix.values[rows], np.float64).reshape(-1),
        )
        yield part if present.all() else part.take(present)
