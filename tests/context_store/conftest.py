"""Fixtures of the store's tests: a run with one started segment, and the folder of its logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_log import Training, make_run, started

from context_store import Store


@pytest.fixture
def training(store: Store, tmp_path: Path) -> Training:
    make_run(store)
    run = Training(store=store, folder=tmp_path / "run-1")
    run.log(started())
    return run
