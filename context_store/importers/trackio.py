"""Trackio projects: a SQLite file, or its parquet copy. NaN and infinities are stored as text."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from context_store.importers.configs import flat
from context_store.importers.formats import Format, Source, Tree
from context_store.importers.items import Fact, Items, Problem
from context_store.importers.sqlite_files import columns_of, opened
from context_store.importers.tables import number_of, slashed
from context_store.importers.tracked_runs import Metric, TrackedRun, items_of
from contracts.enums import TimelineKind
from contracts.events import Scalar

_NEEDED = {"run_name", "step", "timestamp"}
_IDENTITY = ("id", "run_id", "timestamp", "run_name", "step", "metrics", "log_id", "space_id")
Row = tuple[str, str, int, str, Mapping[str, Any]]  # run id, run name, step, timestamp, metrics


def find(tree: Tree) -> list[Source]:
    databases = [path for path in tree.files if {*_NEEDED, "metrics"} <= columns_of(path, "metrics")]
    known = {path.stem for path in databases}
    parquet = [
        path
        for path in tree.files
        if path.suffix == ".parquet"
        and path.stem not in known
        and not path.stem.endswith("_system")
        and _is_metrics(path)
    ]
    found = []
    for path in (*databases, *parquet):
        beside = [each for each in tree.files if each.parent == path.parent and each != path and _belongs(each, path)]
        found.append(Source(files=(path,), companions=tuple(beside)))
    return found


def read(source: Source) -> Items:
    path = source.files[0]
    try:
        if path.suffix == ".parquet":
            yield from _runs(path, _parquet_rows(path), {}, {})
            return
        with opened(path) as connection:
            yield from _runs(path, _rows(connection), _configs(connection), _alerts(connection))
    except (sqlite3.Error, OSError, ValueError) as error:
        yield Problem(file=str(path), position="the database", what=str(error)[:300])


def _belongs(path: Path, database: Path) -> bool:
    return path.name.startswith(database.stem) and path.suffix in (".db-wal", ".db-shm", ".lock", ".parquet")


def _runs(path: Path, rows: Iterable[Row], configs: Mapping[str, Any], alerts: Mapping[str, list[Fact]]) -> Items:
    """Rows come run by run."""
    current, name, collected = "", "", _Columns()
    for run_id, run_name, step, timestamp, metrics in rows:
        if run_id != current:
            if current:
                yield from items_of(_tracked(path, current, name, collected, configs, alerts))
            current, name, collected = run_id, run_name, _Columns()
        collected.add(_milliseconds(timestamp), step, metrics)
    if current:
        yield from items_of(_tracked(path, current, name, collected, configs, alerts))


class _Columns:
    def __init__(self) -> None:
        self.points: dict[str, list[tuple[int, int, float]]] = {}

    def add(self, time: int, step: int, metrics: Mapping[str, Any]) -> None:
        for key, value in slashed(metrics).items():
            number = number_of(value)
            if number is not None:
                self.points.setdefault(key, []).append((time, step, number))

    def metrics(self) -> dict[str, Metric]:
        found = {}
        for name, points in self.points.items():
            times, steps, values = zip(*points, strict=True)
            found[name] = Metric(
                times=np.array(times, np.int64), steps=np.array(steps, np.int64), values=np.array(values, np.float64)
            )
        return found


def _tracked(
    path: Path,
    run_id: str,
    name: str,
    collected: _Columns,
    configs: Mapping[str, Any],
    alerts: Mapping[str, list[Fact]],
) -> TrackedRun:
    config: dict[str, Scalar] = flat(configs.get(run_id, {}))
    metrics = collected.metrics()
    return TrackedRun(
        key=f"trackio:{path.stem}:{run_id}",
        name=name,
        project=path.stem,
        origin=str(path),
        metrics=metrics,
        config={key: value for key, value in config.items() if not key.startswith("_")},
        environment={f"trackio.{key[1:].lower()}": value for key, value in config.items() if key.startswith("_")},
        started_at=min((int(each.times[0]) for each in metrics.values()), default=0) / 1000,
        facts=alerts.get(run_id, []),
    )


def _rows(connection: sqlite3.Connection) -> Iterator[Row]:
    has_ids = "run_id" in {row[0] for row in connection.execute("SELECT name FROM pragma_table_info('metrics')")}
    identity = "run_id" if has_ids else "run_name"
    query = f"SELECT {identity}, run_name, step, timestamp, metrics FROM metrics ORDER BY {identity}, id"  # noqa: S608
    for run_id, name, step, timestamp, metrics in connection.execute(query):
        yield str(run_id), str(name), int(step), str(timestamp), json.loads(metrics)


def _configs(connection: sqlite3.Connection) -> dict[str, Any]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'configs'").fetchone():
        return {}
    names = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info('configs')")}
    identity = "run_id" if "run_id" in names else "run_name"
    rows = connection.execute(f"SELECT {identity}, config FROM configs")  # noqa: S608
    return {str(run): json.loads(config) for run, config in rows}


def _alerts(connection: sqlite3.Connection) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    if "level" not in {row[0] for row in connection.execute("SELECT name FROM pragma_table_info('alerts')")}:
        return found
    for run, title, text, level, step in connection.execute("SELECT run_id, title, text, level, step FROM alerts"):
        fact = Fact(
            step=step or 0, kind=TimelineKind.NOTE, title=f"alert: {title}", detail={"text": text, "level": level}
        )
        found.setdefault(str(run), []).append(fact)
    return found


def _is_metrics(path: Path) -> bool:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        return set(parquet.read_schema(path).names) >= _NEEDED
    except (OSError, pyarrow.ArrowInvalid):
        return False


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow.parquet as parquet

    rows = parquet.read_table(path).to_pylist()
    rows.sort(key=lambda row: str(row.get("run_id") or row["run_name"]))
    for row in rows:
        metrics = row["metrics"] if "metrics" in row else {k: v for k, v in row.items() if k not in _IDENTITY}
        metrics = json.loads(metrics) if isinstance(metrics, str | bytes) else metrics
        yield (
            str(row.get("run_id") or row["run_name"]),
            str(row["run_name"]),
            int(row["step"]),
            str(row["timestamp"]),
            metrics,
        )


def _milliseconds(timestamp: str) -> int:
    """A time without a zone is UTC, as Trackio writes it."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


FORMAT = Format(name="Trackio", find=find, read=read)
