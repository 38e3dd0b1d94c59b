"""Writes run folders as a training does, and makes the runs they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from context_store import Store
from context_store.records import NewRun, Project, Run
from contracts.enums import RunRole
from contracts.events import Event, Metrics, Scalar, SegmentStarted, encode, segment_folder


def make_run(store: Store, run_id: str = "run-1", **more: Any) -> Run:
    """A run of project `p`, which is made too."""
    store.projects.put(Project(id="p", path="/projects/p"))
    fields = {"project_id": "p", "name": run_id, "role": RunRole.TRAINING, "folder": f"/runs/{run_id}", **more}
    return store.runs.create(NewRun(id=run_id, **fields))


def started(run_id: str = "run-1", segment: int = 0, start_step: int = 0, **more: Any) -> SegmentStarted:
    fields: dict[str, Any] = {
        "code_version": "c0ffee",
        "seed": 1,
        "dp_size": 2,
        "start_checkpoint": "",
        "config": {"optim.router.lr": 0.01, "moe.balance.coef": 0.01},
        "environment": {"python": "3.11"},
        "wall_time": 1_000_000.0,
    }
    return SegmentStarted(run_id=run_id, segment=segment, start_step=start_step, **fields | more)


def append(folder: Path, segment: int, *events: Event) -> Path:
    """Append events to a segment's log; returns the log."""
    log = segment_folder(folder, segment) / "events.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(b"".join(encode(event) for event in events))
    return log


def steps(lo: int, hi: int, values: Mapping[str, float] | None = None) -> list[Event]:
    """Metrics of steps lo..hi (inclusive); by default `loss` is the step's number."""
    return [Metrics(step=step, values=values or {"loss": float(step)}) for step in range(lo, hi + 1)]


def scalars(**fields: Scalar) -> dict[str, Scalar]:
    return {key.replace("__", "."): value for key, value in fields.items()}


def counts(store: Store) -> tuple[int, int]:
    """Stored points of the two tiers, what is stored twice counted twice."""
    query = """
        SELECT (SELECT coalesce(sum(octet_length(values) / 8), 0)::bigint FROM frame),
            (SELECT coalesce(sum(n), 0)::bigint FROM chunk)
    """
    with psycopg.connect(store.url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0], row[1]


@dataclass(frozen=True)
class Training:
    """A run `run-1` in the store and its log folder."""

    store: Store
    folder: Path
    run_id: str = "run-1"

    def log(self, *events: Event, segment: int = 0) -> Path:
        return append(self.folder, segment, *events)

    def ship(self) -> int:
        return self.store.ingest.ship(self.run_id, self.folder)
