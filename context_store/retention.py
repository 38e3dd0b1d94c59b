"""Deleting runs, and the points of runs by whole chunks. One transaction a run; memory does not grow with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from context_store import points
from context_store.database import Database, driver
from context_store.models import Base, RunRow
from context_store.records import Removal
from contracts.errors import UserInputError

# What belongs to a run and goes with it; whatever else refers to a run is knowledge that rests on it.
_OWNED = ("series", "segment", "config_value", "checkpoint", "data_read", "executed_file", "shipment", "stream",
          "timeline_event")  # fmt: skip


class Retention:
    """With `dry_run` nothing is deleted, only counted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def delete_run(self, run_id: str, *, dry_run: bool = False) -> Removal:
        """Delete a run with all that belongs to it, whole or not at all.

        Raises NotFound, and UserInputError when investigations, anomalies or other runs rest on it: their points may
        go by `expire`, the run stays.
        """
        with self._database.begin() as connection:
            number = points.lock_run(connection, run_id)
            _refuse_if_needed(connection, run_id)
            chosen = {"run": run_id, "step": None, "statistics": None}
            removal = _count(connection, chosen, number)
            if not dry_run:
                _delete_points(connection, chosen)
                for table in ("frame", "tail"):
                    driver(connection).execute(f"DELETE FROM {table} WHERE run_number = %s", [number])  # noqa: S608
                for table in _OWNED:
                    driver(connection).execute(f"DELETE FROM {table} WHERE run_id = %s", [run_id])  # noqa: S608
                driver(connection).execute("DELETE FROM run WHERE id = %s", [run_id])
        return removal

    def expire(
        self,
        run_id: str,
        *,
        before_step: int | None = None,
        statistics: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> Removal:
        """Delete points of a run, the names stay: of these statistics (None: all), in chunks wholly before the step.

        The tail is sealed first, also in a dry run. Without `before_step` all points of the statistics go.
        Raises NotFound.
        """
        with self._database.begin() as connection:
            number = points.lock_run(connection, run_id)
            points.seal(connection, number)
            names = None if statistics is None else list(statistics)
            chosen = {"run": run_id, "step": before_step, "statistics": names}
            removal = _count(connection, chosen, number)
            if not dry_run:
                _delete_points(connection, chosen)
        return removal

    def ended_before(self, at: float, project_id: str | None = None) -> tuple[str, ...]:
        """Runs all of whose segments ended before `at` (unix seconds), oldest first: what a policy may expire."""
        query = """
            SELECT run.id FROM run JOIN segment ON segment.run_id = run.id
            WHERE %(project)s::text IS NULL OR run.project_id = %(project)s
            GROUP BY run.id, run.created_at HAVING bool_and(segment.ended_at IS NOT NULL)
                AND max(segment.ended_at) < to_timestamp(%(at)s) ORDER BY run.created_at, run.id
        """
        with self._database.begin() as connection:
            rows = driver(connection).execute(query, {"project": project_id, "at": at}).fetchall()
        return tuple(row[0] for row in rows)


def _count(connection: sa.Connection, chosen: Mapping[str, object], number: int) -> Removal:
    """Of the chosen chunks, and of what is in the tail."""
    row = driver(connection).execute(_COUNT, {**chosen, "number": number}).fetchone()
    assert row is not None
    num_points, num_chunks, size_bytes = (int(value) for value in row)
    return Removal(run_id=str(chosen["run"]), num_points=num_points, num_chunks=num_chunks, size_bytes=size_bytes)


def _delete_points(connection: sa.Connection, chosen: Mapping[str, object]) -> None:
    driver(connection).execute(f"DELETE FROM chunk WHERE {_CHOSEN_CHUNKS}", chosen)  # noqa: S608
    driver(connection).execute(f"DELETE FROM latest WHERE {_MINE} AND {_EARLY_LATEST}", chosen)  # noqa: S608


def _refuse_if_needed(connection: sa.Connection, run_id: str) -> None:
    """Every table that refers to a run is either owned by it or a reason to keep it."""
    for table in Base.metadata.sorted_tables:
        if table.name in _OWNED:
            continue
        for column in table.columns:
            if not any(key.column is RunRow.__table__.c.id for key in column.foreign_keys):
                continue
            found = connection.execute(sa.select(sa.func.count()).where(column == run_id)).scalar_one()
            if found:
                raise UserInputError(
                    f"{found} rows of '{table.name}' rest on run '{run_id}'",
                    remedy="keep the run and expire its points instead, or delete those first",
                )


# Put together from constants only.
_MINE = """
    series_id IN (SELECT id FROM series WHERE run_id = %(run)s
        AND (%(statistics)s::text[] IS NULL OR statistic = ANY(%(statistics)s)))
"""
_CHOSEN_CHUNKS = f"{_MINE} AND (%(step)s::bigint IS NULL OR step_hi < %(step)s)"
_EARLY_LATEST = "(%(step)s::bigint IS NULL OR step < %(step)s)"
_COUNT = f"""
    SELECT coalesce(sum(n), 0), coalesce(sum(chunks), 0), coalesce(sum(size), 0) FROM (
        SELECT sum(n) AS n, count(*) AS chunks, sum(octet_length(payload)) AS size FROM chunk WHERE {_CHOSEN_CHUNKS}
        UNION ALL
        SELECT sum(octet_length(values) / 8), 0, sum(octet_length(values)) FROM frame WHERE run_number = %(number)s
    ) AS tiers
"""  # noqa: S608
