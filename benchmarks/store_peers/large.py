"""Sizes at the edge of what others recommend (W&B: 100,000 series a project, 500,000 steps, 10,000 runs), recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import psutil

from benchmarks.store_peers.cells import require_equal, timed
from benchmarks.store_peers.lathe import Lathe
from benchmarks.store_peers.workload import Workload


def record(lathe: Lathe, workload: Workload, scale: float, parts: Sequence[str]) -> dict[str, Any]:
    """Seconds by what was done."""
    found: dict[str, Any] = {}

    def note(name: str, action: Callable[[], object]) -> None:
        found[name] = timed(action)

    for part in parts:
        run, full, least = PARTS[part]
        run(lathe, workload, max(least, round(full * scale)), found, note)
    found["rss_bytes"] = float(psutil.Process().memory_info().rss)
    return found


Note = Callable[[str, Callable[[], object]], None]


def _many_series(lathe: Lathe, workload: Workload, num_series: int, found: dict[str, Any], note: Note) -> None:
    batch = workload.batch(num_series, 20)
    lathe.new_run("wide")
    rows = batch.rows()
    found["num_series"] = num_series
    note("wide_first_step_s", lambda: lathe.append("wide", rows[0]))
    note("wide_19_steps_s", lambda: [lathe.append("wide", row) for row in rows[1:]])
    note("wide_one_series_live_s", lambda: lathe.history("wide", batch.names[-1]))
    note("wide_seal_s", lambda: lathe.store.series.seal("wide"))
    note("wide_one_series_s", lambda: lathe.history("wide", batch.names[-1]))
    note("wide_scan_s", lambda: lathe.scan("wide", batch.names))
    note("wide_names_s", lambda: lathe.store.series.names("wide"))
    require_equal("wide", lathe.scan("wide", batch.names), batch.values)
    note("wide_delete_s", lambda: lathe.store.retention.delete_run("wide"))


def _long_series(lathe: Lathe, workload: Workload, num_steps: int, found: dict[str, Any], note: Note) -> None:
    batch = workload.batch(1, num_steps)
    lathe.new_run("long")
    found["num_steps"] = num_steps
    name = batch.names[0]
    note("long_write_s", lambda: lathe.bulk("long", batch))
    note("long_history_s", lambda: lathe.history("long", name))
    note("long_downsample_s", lambda: lathe.downsample("long", name, 320))
    note("long_last_thousand_s", lambda: lathe.store.series.read("long", name, lo=num_steps - 1000))
    require_equal("long", lathe.history("long", name), batch.values[0])


def _many_runs(lathe: Lathe, workload: Workload, num_runs: int, found: dict[str, Any], note: Note) -> None:
    values = workload.batch(num_runs, 80).values.tolist()

    def load() -> None:
        for index, row in enumerate(values):
            metrics = {f"metric_{i}": value for i, value in enumerate(row[:50])}
            lathe.list_run(f"listed-{index}", metrics, {f"config_{i}": value for i, value in enumerate(row[50:])})

    found["num_runs"] = num_runs
    note("runs_load_s", load)
    note("runs_first_page_s", lambda: lathe.runs(50))
    note("runs_all_s", lambda: lathe.runs(num_runs))
    if len(lathe.runs(num_runs)) != num_runs or not np.isfinite(found["runs_all_s"]):
        raise AssertionError("not all runs are listed")


# What each part runs, its size at scale 1, and at least.
PARTS: dict[str, tuple[Callable[[Lathe, Workload, int, dict[str, Any], Note], None], int, int]] = {
    "wide": (_many_series, 100_000, 100),
    "long": (_long_series, 500_000, 5000),
    "runs": (_many_runs, 10_000, 20),
}
