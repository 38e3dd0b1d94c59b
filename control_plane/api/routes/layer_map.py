"""GET /runs/RUN/map: many series as one picture, a row each, so that the one that goes astray is seen."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query
from numpy.typing import NDArray

from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body
from control_plane.api.routes.read import Step, require_matrix

router = APIRouter(prefix="/runs", tags=["runs"])
_MAX_NAMES = 1000


class BrokenPoint(Body):
    """The first value of a row in a column that is not finite."""

    row: int
    step: int


class LayerMap(Body):
    """`values[row][column]`: of the steps from `steps[column]` to the next column the value farthest from the median
    of all rows in these steps; null where the row has no finite point. `broken`: one for each cell, of every row,
    that holds a point that is not finite.
    """

    names: list[str]
    steps: list[int]
    values: list[list[float | None]]
    broken: list[BrokenPoint]


@router.get("/{run_id}/map", response_model=LayerMap)
def layer_map(
    store: StoreDep,
    run_id: str,
    name: Annotated[list[str], Query(min_length=1, max_length=_MAX_NAMES)],
    columns: Annotated[int, Query(ge=1, le=2000)] = 300,
    lo: Step = None,
    hi: Step = None,
) -> Answer:
    """The named series over steps in `columns` equally wide parts; neither a peak nor a dip of one row is lost."""
    store.runs.get(run_id)
    found = store.series.matrix(run_id, name, lo, hi)
    require_matrix(found)
    seen = found.present & np.isfinite(found.values)
    starts, bounds = _columns(found.steps, columns)
    values = _farthest(np.where(seen, found.values, np.nan), bounds)
    rows, places = _first_broken(found.present & ~np.isfinite(found.values), bounds)
    broken = [{"row": int(row), "step": int(found.steps[place])} for row, place in zip(rows, places, strict=True)]
    cells = [[None if np.isnan(value) else float(value) for value in row] for row in values]
    return Answer({"names": found.names, "steps": starts.tolist(), "values": cells, "broken": broken})


def _columns(steps: NDArray[np.int64], columns: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """(first step of each column that has points [C], where it begins in `steps` [C]); at most `columns` columns."""
    if not len(steps):
        return np.empty(0, np.int64), np.empty(0, np.intp)
    first = int(steps[0])
    width = -(-(int(steps[-1]) - first + 1) // columns)
    column = (steps - first) // width
    bounds = np.flatnonzero(np.diff(column, prepend=-1))
    return first + column[bounds] * width, bounds


def _first_broken(
    broken_RS: NDArray[np.bool_], bounds_C: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(row, place among the steps) of the first broken point of each cell that has one, row by row."""
    rows, places = np.nonzero(broken_RS)
    columns = np.searchsorted(bounds_C, places, side="right") - 1
    kept = np.flatnonzero(np.diff(rows, prepend=-1) | np.diff(columns, prepend=-1))
    return rows[kept], places[kept]


def _farthest(values_RS: NDArray[np.float64], bounds_C: NDArray[np.intp]) -> NDArray[np.float64]:
    """[R, C]; NaN where a row has nothing. Largest and smallest of a column are compared with its median."""
    if not len(bounds_C):
        return np.empty((len(values_RS), 0))
    high_RC = np.maximum.reduceat(np.where(np.isnan(values_RS), -np.inf, values_RS), bounds_C, axis=1)
    low_RC = np.minimum.reduceat(np.where(np.isnan(values_RS), np.inf, values_RS), bounds_C, axis=1)
    empty_RC = np.isneginf(high_RC)
    high_RC[empty_RC], low_RC[empty_RC] = np.nan, np.nan
    some_C = ~empty_RC.all(axis=0)
    middle_C = np.zeros(len(bounds_C))
    middle_C[some_C] = np.nanmedian((high_RC[:, some_C] + low_RC[:, some_C]) / 2, axis=0)
    return np.where(high_RC - middle_C >= middle_C - low_RC, high_RC, low_RC)
