"""The trackers that write local files: Trackio (SQLite) and W&B offline (its own log)."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = Sequence[tuple[int, Mapping[str, float]]]


class Trackio:
    """One project a run, so that a file is one run."""

    def __init__(self, folder: Path) -> None:
        os.environ["TRACKIO_DIR"] = str(folder)  # read when it is imported
        self._trackio: Any = importlib.import_module("trackio")
        self._storage: Any = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
        self.version, self._folder = str(self._trackio.__version__), folder

    def live(self, run_id: str, rows: Rows) -> float:
        """Seconds of the faster of its two ways: log() with finish(), and one bulk_log, which is one commit, a step."""
        with redirect_stdout(sys.stderr):  # it greets
            run = self._trackio.init(
                project=f"{run_id}-log", name="run", embed=False, auto_log_gpu=False, auto_log_cpu=False
            )
            begin = time.perf_counter()
            for step, values in rows:
                run.log(values, step=step)
            self._trackio.finish()
            logged = time.perf_counter() - begin
        begin = time.perf_counter()
        for step, values in rows:
            self._storage.bulk_log(run_id, "run", [values], steps=[step])
        return min(logged, time.perf_counter() - begin)

    def bulk(self, run_id: str, rows: Rows) -> None:
        self._storage.bulk_log(run_id, "run", [values for _, values in rows], steps=[step for step, _ in rows])

    def history(self, run_id: str, name: str) -> NDArray[np.float64]:
        return np.array([row["value"] for row in self._storage.get_metric_values(run_id, "run", name)])

    def size_bytes(self, run_id: str) -> int:
        return sum(file.stat().st_size for file in self._folder.glob(f"{run_id}.db*"))


class WandbOffline:
    def __init__(self, folder: Path) -> None:
        self._wandb: Any = importlib.import_module("wandb")
        self.version, self._folder = str(self._wandb.__version__), folder

    def live(self, run_id: str, batch_rows: Rows) -> float:
        """Seconds of log() and finish(), without the start of its service."""
        settings = self._wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True)
        run = self._wandb.init(
            mode="offline", project="benchmark", name=run_id, dir=str(self._folder), settings=settings
        )
        begin = time.perf_counter()
        for step, values in batch_rows:
            run.log(values, step=step)
        run.finish()
        elapsed = time.perf_counter() - begin
        shutil.rmtree(self._folder / "wandb", ignore_errors=True)
        return elapsed
