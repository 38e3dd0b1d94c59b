"""The map of many series in one picture, and the diff of one commit."""

from __future__ import annotations

import numpy as np
import pytest
from case import RUN, train_bad_run
from fastapi.testclient import TestClient
from small_project import SmallProject
from test_api import client, header  # noqa: F401 - client is a fixture

from contracts.enums import Role
from control_plane.api.routes.layer_map import _columns, _farthest, _first_broken
from control_plane.wiring import Lathe

NAN = float("nan")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[1.0, 9.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]], [[9.0, 1.0], [1.0, 1.0], [1.0, 1.0]]),
        ([[5.0, 5.0, 5.0, -3.0], [5.0, 5.0, 5.0, 5.0], [5.0, 5.0, 5.0, 5.0]], [[5.0, -3.0], [5.0, 5.0], [5.0, 5.0]]),
        ([[NAN, NAN, 2.0, NAN], [1.0, 1.0, 2.0, 2.0]], [[NAN, 2.0], [1.0, 2.0]]),
        ([[NAN, NAN, NAN, NAN]], [[NAN, NAN]]),
    ],
)
def test_neither_a_peak_nor_a_dip_is_lost(rows: list[list[float]], expected: list[list[float]]) -> None:
    starts, bounds = _columns(np.array([10, 11, 12, 13]), 2)
    assert starts.tolist() == [10, 12]
    np.testing.assert_array_equal(_farthest(np.array(rows), bounds), expected)


def test_columns_without_a_step_are_left_out() -> None:
    starts, bounds = _columns(np.array([1, 2, 99, 100]), 10)
    assert (starts.tolist(), bounds.tolist()) == ([1, 91], [0, 2])
    assert [len(part) for part in _columns(np.array([], dtype=np.int64), 10)] == [0, 0]


def test_every_row_that_breaks_has_its_crosses_one_a_cell() -> None:
    """48 layers of 20,000 steps: a layer that broke first does not use up the crosses of a second one."""
    broken = np.zeros((48, 20_000), dtype=bool)
    broken[5, 10_000:] = True
    broken[31, 15_000:] = True
    _, bounds = _columns(np.arange(20_000), 300)
    rows, places = _first_broken(broken, bounds)
    column = np.searchsorted(bounds, places, side="right") - 1
    assert set(rows.tolist()) == {5, 31}
    assert (places[rows == 5][0], places[rows == 31][0]) == (10_000, 15_000)
    for row, first in ((5, 10_000), (31, 15_000)):
        reached = np.searchsorted(bounds, first, side="right") - 1
        assert column[rows == row].tolist() == list(range(reached, len(bounds)))
    assert [part.size for part in _first_broken(np.zeros((2, 0), dtype=bool), bounds[:0])] == [0, 0]


def test_the_map_of_a_run_and_what_a_commit_changes_are_told(
    client: TestClient,  # noqa: F811
    lathe: Lathe,
    small_project: SmallProject,
) -> None:
    train_bad_run(lathe, small_project)
    viewer = header(lathe.store, Role.VIEWER)
    found = client.get(f"/api/v1/runs/{RUN}/map", params={"name": ["loss", "none"], "columns": 3}, headers=viewer)
    assert found.json()["steps"] == [1, 11, 21]
    assert found.json()["values"][1] == [None, None, None]
    project = lathe.store.runs.get(RUN).project_id
    commit = client.get(f"/api/v1/projects/{project}/commits/{small_project.bad}", headers=viewer).json()
    assert commit["commit"]["hash"] == small_project.bad
    assert commit["diff"].startswith("diff --git a/")
    assert "\n@@ -" in commit["diff"]
