"""The series store against MLflow on the same Postgres, Trackio and offline W&B; one JSON object as the last line.

Interleaved rounds in one process, results checked equal first, medians of the ratios of the rounds; the peers run
through their Python APIs without HTTP, the server with its default durability. A candidate that is slow gets fewer
steps of the same shape, and rates per point are compared. What is only read from MLflow is copied into its tables
(store_peers/mlflow_store.py). Our live ingest includes sealing. Shows R801-2.2 and R801-2.3 at their scale.

--large records once: 100,000 series in one project, one series of 500,000 steps, 10,000 runs listed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.store_peers import large
from benchmarks.store_peers.cells import CELLS, Bench, Sizes
from benchmarks.store_peers.lathe import Lathe
from benchmarks.store_peers.local_files import Trackio, WandbOffline
from benchmarks.store_peers.mlflow_store import MlflowStore
from benchmarks.store_peers.workload import Workload, load_generator, random_walks
from context_store import EmbeddedPostgres, Store, migrate, open_store
from kernels.measure import refuse_a_busy_machine


@dataclass(frozen=True)
class Goal:
    """`at_most`: smaller is better."""

    value: float
    at_most: bool = False

    def margin(self, found: float) -> float:
        """Above one: reached."""
        if self.at_most:
            return self.value / found if found > 0 else math.inf
        return found / self.value


GOALS = {
    "live_ingest_x_mlflow": Goal(12),
    "bulk_x_mlflow": Goal(60),
    "bulk_x_trackio": Goal(1.5),
    "replay_x_mlflow": Goal(10),
    "history_x_mlflow": Goal(100),
    "downsample_x_mlflow": Goal(10),
    "layer_scan_x_mlflow": Goal(20),
    "one_series_x_trackio": Goal(20),
    "list_runs_x_mlflow": Goal(5),
    "bytes_x_mlflow": Goal(0.07, at_most=True),
    "bytes_x_trackio": Goal(0.5, at_most=True),
}


def compare(bench: Bench) -> dict[str, Any]:
    """Runs all cells; figures by name, and the seconds a point (or an operation) of every candidate and round."""
    seconds: dict[str, dict[str, list[float]]] = {}
    figures: dict[str, Any] = {}
    for name, cell in CELLS.items():
        begin = time.perf_counter()
        seconds[name], sizes = cell(bench)
        figures |= sizes
        sys.stderr.write(f"{name}: {time.perf_counter() - begin:.0f} s\n")
    for cell_name, times in seconds.items():
        for peer, theirs in times.items():
            if peer != "lathe":
                ratios = [b / a for a, b in zip(times["lathe"], theirs, strict=True)]
                figures[f"{cell_name}_x_{peer}"] = statistics.median(ratios)
    worst = min(GOALS, key=lambda key: GOALS[key].margin(figures[key]))
    figures["worst_cell"], figures["worst_margin"] = worst, GOALS[worst].margin(figures[worst])
    figures["missed"] = [key for key, goal in GOALS.items() if goal.margin(figures[key]) < 1]
    return figures | {"seconds": seconds}


@contextmanager
def fresh_store(folder: Path) -> Iterator[Store]:
    """A new embedded server with default durability."""
    server = EmbeddedPostgres(folder)
    try:
        url = server.start()
        migrate(url)
        with open_store(url) as store:
            yield store
    finally:
        server.stop()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    workload = Workload(load_generator(options.values) if options.values else random_walks)
    folder = Path(tempfile.mkdtemp(prefix="ls"))
    try:
        with fresh_store(folder / "pg") as store:
            if options.large is not None:
                parts = options.large or list(large.PARTS)
                return large.record(Lathe(store, folder / "runs"), workload, options.scale, parts)
            bench = Bench(
                lathe=Lathe(store, folder / "runs"),
                mlflow=MlflowStore(store.url),
                trackio=Trackio(folder / "trackio"),
                wandb=WandbOffline(folder),
                workload=workload,
                sizes=Sizes.scaled(options.scale),
                rounds=options.rounds,
            )
            versions = {name: getattr(bench, name).version for name in ("mlflow", "trackio", "wandb")}
            return compare(bench) | {"versions": versions}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--values", help="module:function that makes the values: (num_series, num_steps, seed)")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes; 1 takes under 8 minutes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="--scale 0.02 --rounds 2 --any-load: does it run?")
    parser.add_argument("--large", nargs="*", choices=tuple(large.PARTS), help="record the large sizes (default: all)")
    parser.add_argument("--any-load", action="store_true", help="measure on a busy machine too; for a rough look")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.rounds, options.any_load = 0.02, 2, True
    return options


def main() -> None:
    options = parse()
    if not options.any_load:
        refuse_a_busy_machine()
    figures: dict[str, Any] = {"scale": options.scale, "load_before": os.getloadavg()[0]}
    figures |= measure(options)
    figures["load_after"] = os.getloadavg()[0]
    for name, value in figures.items():
        if isinstance(value, float):
            goal = GOALS.get(name)
            told = "" if goal is None else f"   goal {'<=' if goal.at_most else '>='} {goal.value}"
            sys.stdout.write(f"{name:32} {value:.4g}{told}\n")
    if "worst_cell" in figures:
        sys.stdout.write(f"worst cell: {figures['worst_cell']}, {figures['worst_margin']:.2f} of its goal\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
