"""A Lathe on a fresh database, and trainings elsewhere that log to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from elsewhere import ApiProcess, Trainings

from context_store import Store
from contracts.enums import Role


@pytest.fixture
def api(store: Store, database_url: str, tmp_path: Path) -> Iterator[ApiProcess]:
    """Not started yet."""
    token = store.tokens.create("a training", Role.RESEARCHER)
    process = ApiProcess(database_url, token, tmp_path / "home")
    yield process
    process.kill()


@pytest.fixture
def trainings(api: ApiProcess, tmp_path: Path) -> Iterator[Trainings]:
    made = Trainings(api, tmp_path)
    yield made
    made.close()
