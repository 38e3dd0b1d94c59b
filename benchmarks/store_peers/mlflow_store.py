"""MLflow's SqlAlchemyStore in a database of its own on the same server: without HTTP, which flatters it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlflow
import numpy as np
import psycopg
from mlflow.entities import Metric, Param, ViewType
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from numpy.typing import NDArray

from benchmarks.store_peers.lathe import relation_bytes
from benchmarks.store_peers.workload import Batch

TABLES = ("metrics", "latest_metrics")
_BATCH = 1000  # the most it takes at once


class MlflowStore:
    version = mlflow.__version__

    def __init__(self, server_url: str) -> None:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE mlflow")
        self.url = server_url.replace("/lathe?", "/mlflow?")
        open_store: Any = SqlAlchemyStore
        self._store = open_store(self.url.replace("postgresql:", "postgresql+psycopg:"), "/nowhere")
        self._experiment = self._store.create_experiment("benchmark")
        self._listed = self._store.create_experiment("listed")
        self._ids: dict[str, str] = {}

    def new_run(self, run_id: str, experiment: str | None = None) -> None:
        run = self._store.create_run(experiment or self._experiment, "user", 0, [], run_id)
        self._ids[run_id] = run.info.run_id

    def live(self, run_id: str, rows: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        for step, values in rows:
            self._store.log_batch(self._ids[run_id], [Metric(k, v, step, step) for k, v in values.items()], [], [])

    def bulk(self, run_id: str, batch: Batch) -> None:
        """Series by series: twice as fast as step by step."""
        for name, values in zip(batch.names, batch.values.tolist(), strict=True):
            points = [Metric(name, value, step, step) for step, value in zip(batch.steps.tolist(), values, strict=True)]
            for start in range(0, len(points), _BATCH):
                self._store.log_batch(self._ids[run_id], points[start : start + _BATCH], [], [])

    def copy_in(self, run_id: str, batch: Batch) -> None:
        """The rows that `live` would make, in its order, by COPY: to have something to read, not to be measured."""
        run = self._ids[run_id]
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            columns = "key, value, timestamp, run_uuid, step, is_nan"
            with cursor.copy(f"COPY metrics ({columns}) FROM STDIN") as copy:
                for step, values in batch.rows():
                    for name, value in values.items():
                        copy.write_row((name, value, step, run, step, False))
            with cursor.copy(f"COPY latest_metrics ({columns}) FROM STDIN") as copy:
                for name, value in zip(batch.names, batch.values[:, -1].tolist(), strict=True):
                    copy.write_row((name, value, int(batch.steps[-1]), run, int(batch.steps[-1]), False))

    def history(self, run_id: str, name: str) -> NDArray[np.float64]:
        """In order of time, which here is that of the steps."""
        return np.array([metric.value for metric in self._store.get_metric_history(self._ids[run_id], name)])

    def downsample(self, run_id: str, name: str, points: int, last: int) -> tuple[list[int], list[float]]:
        found = self._store.get_metric_history_bulk_interval([self._ids[run_id]], name, points, 0, last)
        return [one.step for one in found], [one.value for one in found]

    def scan(self, run_id: str, names: Sequence[str]) -> NDArray[np.float64]:
        return np.stack([self.history(run_id, name) for name in names])

    def list_run(self, run_id: str, metrics: Mapping[str, float], config: Mapping[str, float]) -> None:
        self.new_run(run_id, self._listed)
        values = [Metric(name, value, 0, 1) for name, value in metrics.items()]
        params = [Param(key, str(value)) for key, value in config.items()]
        self._store.log_batch(self._ids[run_id], values, params, [])

    def runs(self, limit: int) -> dict[str, tuple[dict[str, float], dict[str, str]]]:
        found = self._store.search_runs([self._listed], "", ViewType.ACTIVE_ONLY, limit)
        return {run.info.run_name: (dict(run.data.metrics), dict(run.data.params)) for run in found}

    def size_bytes(self) -> int:
        return relation_bytes(self.url, TABLES)
