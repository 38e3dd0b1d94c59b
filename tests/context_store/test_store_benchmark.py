"""The store's benchmark runs and prints what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
FIGURES = {
    "live_ingest_x_mlflow", "live_ingest_x_trackio", "live_ingest_x_wandb_offline", "bulk_x_mlflow", "bulk_x_trackio",
    "replay_x_mlflow", "history_x_mlflow", "downsample_x_mlflow", "layer_scan_x_mlflow", "one_series_x_trackio",
    "list_runs_x_mlflow", "bytes_x_mlflow", "bytes_x_trackio", "worst_cell", "seconds",
}  # fmt: skip


def constants(num_series: int, num_steps: int, seed: int) -> NDArray[np.float64]:
    return np.full((num_series, num_steps), float(seed))


def run(*arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.store", "--quick", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_every_figure_is_printed_also_for_values_from_outside() -> None:
    pytest.importorskip("trackio")
    pytest.importorskip("wandb")
    for arguments in ([], ["--values", "tests.context_store.test_store_benchmark:constants"]):
        found = run(*arguments)
        assert set(found) >= FIGURES
        assert found["replay_new_rows"] == 0


@pytest.mark.slow
def test_the_large_sizes_can_be_recorded() -> None:
    found = run("--large")
    assert {"wide_first_step_s", "long_history_s", "runs_all_s"} <= set(found)
