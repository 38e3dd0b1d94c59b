"""Fixtures of the store's tests: a run with one started segment, and the folder of its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from training_log import append, make_run, started

from context_store import Store
from contracts.events import Event


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


@pytest.fixture
def training(store: Store, tmp_path: Path) -> Training:
    make_run(store)
    run = Training(store=store, folder=tmp_path / "run-1")
    run.log(started())
    return run
