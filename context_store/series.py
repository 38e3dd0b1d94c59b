"""Series: exact values over steps, in any order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store import points
from context_store.database import Database, any_of
from context_store.downsampling import keep_shape
from context_store.lineage import load_lineage
from context_store.models import SeriesRow
from context_store.records import SeriesData, SeriesMatrix

View = Literal["canonical", "full"]


class SeriesStore:
    """Reads. The canonical view has one value a step, that of the newest segment; the full view has all of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def names(self, run_id: str, statistic: str | None = None, prefix: str | None = None) -> tuple[str, ...]:
        """By statistic, layer, expert."""
        query = sa.select(SeriesRow.name).where(SeriesRow.run_id == run_id)
        if statistic is not None:
            query = query.where(SeriesRow.statistic == statistic)
        if prefix is not None:
            query = query.where(sa.func.starts_with(SeriesRow.name, prefix))
        order = (SeriesRow.statistic, SeriesRow.layer.nulls_first(), SeriesRow.expert.nulls_first(), SeriesRow.name)
        with self._database.begin() as connection:
            return tuple(connection.execute(query.order_by(*order)).scalars())

    def read(
        self, run_id: str, name: str, lo: int | None = None, hi: int | None = None, view: View = "canonical"
    ) -> SeriesData:
        """Points between the inclusive steps; empty for a name the run does not have."""
        with self._database.snapshot() as connection:
            ids = _ids(connection, run_id, [name])
            found = points.read(connection, list(ids.values()), lo, hi).newest()
            if view == "canonical":
                found = found.take(load_lineage(connection, run_id).mask(found.segments, found.steps))
        found = found.take(np.lexsort((found.segments, found.steps)))
        if view == "canonical":
            found = found.take(np.append(np.diff(found.steps) != 0, True)[: len(found)])
        return SeriesData(name=name, steps=found.steps, values=found.values, segments=found.segments)

    def matrix(self, run_id: str, names: Sequence[str], lo: int | None = None, hi: int | None = None) -> SeriesMatrix:
        """The canonical values of several series in one go."""
        with self._database.snapshot() as connection:
            ids = _ids(connection, run_id, names)
            found = points.read(connection, list(ids.values()), lo, hi)
            found = found.take(load_lineage(connection, run_id).mask(found.segments, found.steps))
        found = found.take(np.argsort(found.segments, kind="stable"))  # the newest segment is assigned last
        steps, columns = np.unique(found.steps, return_inverse=True)
        values = np.full((len(names), len(steps)), np.nan)
        present = np.zeros((len(names), len(steps)), dtype=np.bool_)
        rows = _positions(names, ids)[found.series] if len(found) else np.empty(0, np.intp)
        values[rows, columns] = found.values
        present[rows, columns] = True
        return SeriesMatrix(names=tuple(names), steps=steps, values=values, present=present)

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
        data = self.read(run_id, name, lo, hi, view)
        parts = [np.flatnonzero(data.segments == segment) for segment in np.unique(data.segments)]
        if view == "canonical" or not parts:
            keep = keep_shape(data.steps, data.values, buckets)
        else:
            keep = np.sort(np.concatenate([p[keep_shape(data.steps[p], data.values[p], buckets)] for p in parts]))
        return SeriesData(name=name, steps=data.steps[keep], values=data.values[keep], segments=data.segments[keep])

    def latest(self, run_ids: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, float]]:
        """The last value of the newest segment that has one: `latest[run_id][name]`."""
        found: dict[str, dict[str, float]] = {run_id: {} for run_id in run_ids}
        with self._database.snapshot() as connection:
            where = {"runs": list(run_ids), "names": list(names)}
            for run_id, name, value in connection.execute(_LATEST, where):
                found[run_id][name] = value
        return found

    def seal(self, run_id: str) -> int:
        """Move the run's hot tail into compressed chunks; returns the number of points. Reads see no difference."""
        return seal_run(self._database, run_id)


_SEAL_SERIES = 200  # series a transaction: bounds memory and how long a load has to wait
_LATEST = sa.text("""
    SELECT s.run_id, s.name, newest.value FROM series s CROSS JOIN LATERAL (
        (SELECT segment, step, value, 1 AS tier FROM point WHERE series_id = s.id
         ORDER BY segment DESC, step DESC LIMIT 1)
        UNION ALL
        (SELECT segment, step_hi, last, 0 FROM chunk WHERE series_id = s.id
         ORDER BY segment DESC, step_lo DESC LIMIT 1)
        ORDER BY segment DESC, step DESC, tier DESC LIMIT 1) newest
    WHERE s.run_id = ANY(:runs) AND s.name = ANY(:names)
""")


def seal_run(database: Database, run_id: str) -> int:
    """As `SeriesStore.seal`."""
    query = sa.select(SeriesRow.id).where(SeriesRow.run_id == run_id).order_by(SeriesRow.id)
    with database.begin() as connection:
        ids = list(connection.execute(query).scalars())
    sealed = 0
    for start in range(0, len(ids), _SEAL_SERIES):
        with database.begin() as connection:
            points.lock_run(connection, run_id)
            sealed += points.seal(connection, ids[start : start + _SEAL_SERIES])
    return sealed


def _ids(connection: sa.Connection, run_id: str, names: Sequence[str]) -> dict[str, int]:
    query = sa.select(SeriesRow.name, SeriesRow.id).where(SeriesRow.run_id == run_id, SeriesRow.name == any_of(names))
    return {row.name: row.id for row in connection.execute(query)}


def _positions(names: Sequence[str], ids: dict[str, int]) -> NDArray[np.intp]:
    """Row of each series id in the matrix, as a table to index with."""
    table = np.zeros(max(ids.values()) + 1, dtype=np.intp)
    for row, name in enumerate(names):
        if name in ids:
            table[ids[name]] = row
    return table
