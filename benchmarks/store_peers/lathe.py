"""Lathe, through its public API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import psycopg
from numpy.typing import NDArray

from benchmarks.store_peers.workload import Batch
from context_store import Store
from context_store.records import NewRun, Project, SeriesMatrix
from contracts.enums import RunRole
from contracts.events import Finished, Metrics, SegmentStarted, encode, segment_folder

TABLES = ("series", "frame", "tail", "chunk", "latest")
PROJECT = "benchmark"


class Lathe:
    def __init__(self, store: Store, folder: Path) -> None:
        self._folder = folder
        self.store = store
        store.projects.put(Project(id=PROJECT, path="/benchmark"))
        store.projects.put(Project(id="listed", path="/benchmark"))

    def new_run(self, run_id: str) -> None:
        self.store.runs.create(
            NewRun(id=run_id, project_id=PROJECT, name=run_id, role=RunRole.TRAINING, folder="/benchmark")
        )

    def live(self, run_id: str, rows: Sequence[tuple[int, Mapping[str, float]]]) -> int:
        """One commit a step, which waits for the disk; then everything is sealed. Returns the number of new points."""
        new = sum(self.store.series.append(run_id, [row]) for row in rows)
        self.store.series.seal(run_id)
        return new

    def append(self, run_id: str, row: tuple[int, Mapping[str, float]]) -> int:
        return self.store.series.append(run_id, [row])

    def bulk(self, run_id: str, batch: Batch) -> int:
        present = np.ones(batch.values.shape, dtype=np.bool_)
        matrix = SeriesMatrix(names=batch.names, steps=batch.steps, values=batch.values, present=present)
        return self.store.series.write(run_id, matrix)

    def history(self, run_id: str, name: str) -> NDArray[np.float64]:
        return self.store.series.read(run_id, name).values

    def downsample(self, run_id: str, name: str, buckets: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        data = self.store.series.downsample(run_id, name, buckets)
        return data.steps, data.values

    def scan(self, run_id: str, names: Sequence[str]) -> NDArray[np.float64]:
        found = self.store.series.across(run_id, "grad_norm")
        row = {name: index for index, name in enumerate(found.names)}
        return found.values[[row[name] for name in names]]

    def list_run(self, run_id: str, metrics: Mapping[str, float], config: Mapping[str, float]) -> None:
        """A finished run with configuration, loaded from its folder."""
        self.store.runs.create(
            NewRun(id=run_id, project_id="listed", name=run_id, role=RunRole.TRAINING, folder="/benchmark")
        )
        log = segment_folder(self._folder / run_id, 0) / "events.log"
        log.parent.mkdir(parents=True)
        started = SegmentStarted(
            run_id=run_id, segment=0, start_step=0, code_version="", seed=1, dp_size=1, start_checkpoint="",
            config=config, environment={}, wall_time=1e9,
        )  # fmt: skip
        events = (started, Metrics(step=1, values=metrics), Finished(step=1, reason="completed"))
        log.write_bytes(b"".join(encode(event) for event in events))
        self.store.ingest.ship(run_id, self._folder / run_id)

    def runs(self, limit: int) -> dict[str, tuple[dict[str, float], dict[str, str]]]:
        """Latest values and configuration by run."""
        rows = self.store.runs.table(project_id="listed", limit=limit)
        return {row.run.id: (dict(row.latest), {key: str(row.config[key]) for key in row.config}) for row in rows}

    def num_rows(self) -> dict[str, int]:
        with psycopg.connect(self.store.url) as connection:
            counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in TABLES]  # noqa: S608
        return {table: count[0] for table, count in zip(TABLES, counts, strict=True) if count}

    def size_bytes(self) -> int:
        return relation_bytes(self.store.url, TABLES)


def relation_bytes(url: str, tables: Sequence[str]) -> int:
    """Of tables with their indexes, after VACUUM."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        sizes = [connection.execute("SELECT pg_total_relation_size(%s::regclass)", [t]).fetchone() for t in tables]
    return sum(int(size[0]) for size in sizes if size)
