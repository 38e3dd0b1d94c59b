"""A database made by the first version is upgraded with all its points."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest
import zstandard
from older_database import older_database
from training_log import counts

from context_store import migrate, open_store
from contracts.errors import DatabaseVersionError

VALUES = np.array([1.5, np.nan, -np.inf, -0.0, 0.1 + 0.2])


def fill_first_version(url: str) -> None:
    """Two runs: points in its tail, in its chunks, and one step in both."""
    steps = np.array([2, 4, 6, 8, 10])
    raw = np.diff(steps, prepend=0).astype("<i8").tobytes()
    raw += VALUES.astype("<f8").view(np.uint8).reshape(-1, 8).T.tobytes()
    payload = b"\x01" + zstandard.ZstdCompressor().compress(raw)
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO project VALUES ('p', '/p', 'recipe:recipe', 'embedded')")
        for run in ("old-1", "old-2"):
            columns = "id, project_id, name, role, folder, state, message, last_step, created_at"
            row = "%s, 'p', 'r', 'training', '/r', 'completed', '', 12, now()"
            connection.execute(f"INSERT INTO run ({columns}) VALUES ({row})", [run])
            for name in ("loss", "grad_norm/layers.1"):
                connection.execute(
                    "INSERT INTO series (run_id, name, statistic, module) VALUES (%s, %s, %s, '')",
                    [run, name, name.partition("/")[0]],
                )
        chunk = "id, 0, 2, 10, 5, -0.0, 1.5, 1.8, 1.5, 0.30000000000000004, 1, 0, 1, %s"
        connection.execute(f"INSERT INTO chunk SELECT {chunk} FROM series WHERE name = 'loss'", [payload])
        connection.execute("INSERT INTO point SELECT id, 0, 10, 7.0 FROM series WHERE name = 'loss'")
        for step, value in ((11, "NaN"), (12, "-0.0")):
            connection.execute("INSERT INTO point SELECT id, 0, %s, %s::float8 FROM series", [step, value])


def test_a_database_of_the_first_version_is_upgraded_with_every_bit(postgres_url: str) -> None:
    url = older_database(postgres_url, "first_version", "0001")
    fill_first_version(url)
    with pytest.raises(DatabaseVersionError, match="schema 0001"):
        open_store(url)
    migrate(url)
    with open_store(url) as store:
        for _ in range(2):
            for run in ("old-1", "old-2"):
                loss = store.series.read(run, "loss")
                assert loss.steps.tolist() == [2, 4, 6, 8, 10, 11, 12]
                assert loss.values.tobytes() == np.array([*VALUES[:4], 7.0, np.nan, -0.0]).tobytes()
                full = store.series.read(run, "loss", view="full")
                assert full.values[full.steps == 10].tolist() == [0.1 + 0.2, 7.0]
                latest = store.series.latest([run], ["loss", "grad_norm/layers.1"])
                assert latest == {run: {"loss": 0.0, "grad_norm/layers.1": 0.0}}
                store.series.seal(run)
        assert counts(store) == (0, 2 * (8 + 2))
        again = {"grad_norm/layers.1": -0.0, "loss": -0.0}
        assert store.series.append("old-1", [(12, again)]) == 0, "what the old version stored is known"
        assert store.runs.get("old-1").last_step == 12
