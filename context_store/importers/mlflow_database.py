"""MLflow's tracking database, read directly: a SQLite file, or any SQLAlchemy url (postgresql://, sqlite:///)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa

from context_store.importers.formats import Format, Source, Tree
from context_store.importers.items import Items, Problem
from context_store.importers.mlflow_runs import MAX_FLOAT, tracked
from context_store.importers.sqlite_files import columns_of
from context_store.importers.tracked_runs import Metric, items_of
from contracts.errors import EnvironmentFault

_RUNS = """
    SELECT r.run_uuid, r.name, r.status, r.start_time, r.end_time, r.lifecycle_stage, e.name AS experiment
    FROM runs r JOIN experiments e ON e.experiment_id = r.experiment_id ORDER BY r.start_time, r.run_uuid
"""
_METRICS = "SELECT key, timestamp, step, value, is_nan FROM metrics WHERE run_uuid = :run ORDER BY key, timestamp, step"


def find(tree: Tree) -> list[Source]:
    return [
        Source(files=(path,))
        for path in tree.files
        if {"key", "is_nan", "run_uuid"} <= columns_of(path, "metrics") and columns_of(path, "experiments")
    ]


def read(source: Source) -> Items:
    """Raises EnvironmentFault when a database that is no file cannot be read."""
    origin = str(source.files[0]) if source.files else _without_password(source.uri)
    url = f"sqlite:///file:{source.files[0].resolve()}?mode=ro&uri=true" if source.files else source.uri
    try:
        engine = sa.create_engine(_with_driver(url))
        with engine.connect() as connection:
            for run in connection.execute(sa.text(_RUNS)).mappings().all():
                yield from _run(connection, run, origin)
        engine.dispose()
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        what = str(error).splitlines()[0][:300]
        if source.files:  # damaged; what lies beside it is sound
            yield Problem(file=origin, position="the database", what=what)
            return
        raise EnvironmentFault(
            f"{origin} cannot be read: {what}", remedy="check the address, and that MLflow's database runs there"
        ) from error


def _run(connection: sa.Connection, run: sa.RowMapping, origin: str) -> Items:
    run_id = str(run["run_uuid"])
    if run["lifecycle_stage"] == "deleted":
        yield Problem(file=origin, position=f"run {run_id}", what="deleted in MLflow; restore it there to import it")
        return
    yield from items_of(
        tracked(
            run_id,
            name=run["name"] or "",
            experiment=str(run["experiment"]),
            origin=origin,
            status=str(run["status"] or ""),
            started_ms=run["start_time"],
            ended_ms=run["end_time"],
            params=_texts(connection, "params", run_id),
            tags=_texts(connection, "tags", run_id),
            metrics=dict(_metrics(connection, run_id)),
        )
    )


def _metrics(connection: sa.Connection, run_id: str) -> Iterator[tuple[str, Metric]]:
    """NaN is stored as a 0 with a mark, infinities as the largest numbers there are."""
    rows: dict[str, list[tuple[int, int, float]]] = {}
    for key, time, step, value, is_nan in connection.execute(sa.text(_METRICS), {"run": run_id}):
        rows.setdefault(key, []).append((time, step, float("nan") if is_nan else float(value)))
    for key, points in rows.items():
        times, steps, values = zip(*points, strict=True)
        exact = np.array(values, np.float64)
        exact[np.abs(exact) >= MAX_FLOAT] = np.copysign(np.inf, exact[np.abs(exact) >= MAX_FLOAT])
        yield key, Metric(times=np.array(times, np.int64), steps=np.array(steps, np.int64), values=exact)


def _texts(connection: sa.Connection, table: str, run_id: str) -> dict[str, str]:
    rows = sa.table(table, sa.column("key"), sa.column("value"), sa.column("run_uuid"))
    query = sa.select(rows.c.key, rows.c.value).where(rows.c.run_uuid == run_id)
    return {key: value or "" for key, value in connection.execute(query)}


def _with_driver(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _without_password(url: str) -> str:
    return sa.make_url(_with_driver(url)).render_as_string(hide_password=True)


FORMAT = Format(name="MLflow database", find=find, read=read)
