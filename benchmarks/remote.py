"""A training elsewhere: lathe_log over HTTP into the API process and Postgres; one JSON object as the last line.

What the training waits for (`log_ms_*`), when everything is acknowledged as committed, and, equality checked first,
how long a backup, a restore on another server and an export of it take.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from context_store import EmbeddedPostgres, archive, migrate, open_store
from context_store.export import export
from contracts.enums import Role
from kernels.measure import refuse_a_busy_machine

_ROOT = Path(__file__).parents[1]
_START_S = 60.0


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(database URL, API URL, researcher token) of a Lathe of its own."""
    server = EmbeddedPostgres(folder / "pg")
    url = server.start()
    migrate(url)
    with open_store(url) as store:
        token = store.tokens.create("remote", Role.RESEARCHER)
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    environment = os.environ | {"LATHE_DATABASE_URL": url, "LATHE_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "control_plane.services.api", str(port)]
    process = subprocess.Popen(command, cwd=_ROOT, env=environment)
    try:
        _wait(f"http://127.0.0.1:{port}/api/v1/health")
        yield url, f"http://127.0.0.1:{port}", token
    finally:
        process.kill()
        process.wait()
        server.stop()


def _wait(address: str) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        try:
            httpx.get(address, timeout=5)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"the API did not answer within {_START_S:.0f} s at {address}")


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
    sys.path.insert(0, str(_ROOT / "clients" / "lathe_log"))
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
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    rows = random_walk(options.series, options.steps)
    try:
        with served(folder) as (url, api, token):
            figures: dict[str, Any] = send(folder, api, token, rows)
            require_equal(url, rows)
            figures |= {"equal": True} | keep(folder, url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, value in figures.items():
        sys.stdout.write(f"{name:16} {value:.6g}\n")
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
