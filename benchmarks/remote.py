"""A training elsewhere: lathe_log over HTTP into the API process and Postgres; one JSON object as the last line.

What the training waits for (`log_ms_*`), when everything is acknowledged as committed, and, equality checked first,
how long a backup, a restore on another server and an export of it take.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.place import CLIENT, end, place, work_folder
from context_store import EmbeddedPostgres, archive, open_store
from context_store.export import export
from contracts.enums import Role
from control_plane.services.ports import LOOPBACK
from kernels.measure import refuse_a_busy_machine


def random_walk(num_series: int, num_steps: int) -> list[dict[str, float]]:
    """Rows with full mantissas, one a step."""
    rng = random.Random(1)
    names = [f"grad_norm/layers.{i // 20}.experts.{i % 20}" for i in range(num_series)]
    state = [rng.gauss(0, 1) for _ in names]
    rows = []
    for _ in range(num_steps):
        state = [value + rng.gauss(0, 1) for value in state]
        rows.append(dict(zip(names, state, strict=True)))
    return rows


def send(folder: Path, url: str, token: str, rows: list[dict[str, float]]) -> dict[str, float]:
    """Log all rows and flush: milliseconds of one `log`, seconds until everything is acknowledged."""
    sys.path.insert(0, str(CLIENT))
    lathe_log: Any = importlib.import_module("lathe_log")  # a client for other environments, no package of this one
    run = lathe_log.init("p", run="r", spool=str(folder / "spool"), url=url, token=token)
    taken = []
    start = time.perf_counter()
    for step, row in enumerate(rows, 1):
        before = time.perf_counter()
        run.log(row, step=step)
        taken.append(1e3 * (time.perf_counter() - before))
    logged = time.perf_counter() - start
    if not run.flush(600) or not run.finish():
        raise SystemExit("not everything was acknowledged")
    acknowledged = time.perf_counter() - start
    median, tail = np.quantile(taken, [0.5, 0.99])
    rate = len(rows) * len(rows[0]) / acknowledged
    return {
        "log_ms_median": float(median),
        "log_ms_p99": float(tail),
        "logged_s": logged,
        "acknowledged_s": acknowledged,
        "points_per_s": rate,
    }


def require_equal(url: str, rows: list[dict[str, float]]) -> None:
    """Every value as it was logged, bit for bit."""
    names = list(rows[0])
    with open_store(url) as store:
        matrix = store.series.matrix("r", names)
    wanted = np.array([[row[name] for name in names] for row in rows]).T
    if not (matrix.present.all() and np.array_equal(matrix.values, wanted)):
        raise SystemExit("what was stored differs from what was logged")


def keep(folder: Path, url: str) -> dict[str, float]:
    """Seconds of backup, restore and export."""
    other = EmbeddedPostgres(folder / "pg2")
    target = other.start()
    try:
        begun = time.perf_counter()
        archive.backup(url, folder / "backup", now=1.0, tell=_silent)
        saved = time.perf_counter()
        archive.restore(target, folder / "backup", tell=_silent)
        restored = time.perf_counter()
        export(url, folder / "export", now=1.0, tell=_silent)
        exported = time.perf_counter()
    finally:
        other.stop()
    return {"backup_s": saved - begun, "restore_s": restored - saved, "export_s": exported - restored}


def _silent(*_: object) -> None:
    """No progress while it is measured."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--any-load", action="store_true", help="measure on a busy machine too")
    options = parser.parse_args()
    if not options.any_load:
        refuse_a_busy_machine()
    rows = random_walk(options.series, options.steps)
    with work_folder() as folder, place(folder) as found:
        api = found.start_api()
        try:
            found.wait_for_api()
            address = f"http://{LOOPBACK}:{found.port}"
            figures: dict[str, Any] = send(folder, address, found.secrets[Role.RESEARCHER], rows)
        finally:
            end(api)
        require_equal(found.url, rows)
        figures |= {"equal": True} | keep(folder, found.url)
    for name, value in figures.items():
        sys.stdout.write(f"{name:16} {value:.6g}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
