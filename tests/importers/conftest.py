"""Imports into a real store."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_writers import Import

from context_store import Store
from context_store.importers import Columnar, Options, Report, discover
from context_store.importers import store as store_found


@pytest.fixture
def bring(store: Store) -> Import:
    """Import a path into the test's store."""

    def run(path: Path, *, columnar: Columnar | None = None, project: str | None = None) -> Report:
        found, _ = discover(str(path), columnar)
        options = Options(actor="tester", project=project)
        return store_found(found, store.url, options, clock=lambda: 1_800_000_000.0, tell=lambda _: None)

    return run
