"""Exact numbers for programs (clients/lathe_read): numpy archives, configuration, comparison of two segments."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from numpy.typing import NDArray
from pydantic import Field

from context_store.records import Commit, ConfigChange, NonFinite, RunTableRow, SeriesMatrix
from contracts.errors import UserInputError
from contracts.events import Scalar
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, first
from control_plane.comparison import compare, find_segment

router = APIRouter(tags=["read"])
_MAX_NAMES = 20_000
_MAX_CELLS = 16_000_000
_SMALLER = "ask for fewer series, or for fewer steps with lo and hi"
Step = Annotated[int | None, Query(ge=-(2**63), lt=2**63)]
Place = Annotated[int | None, Query(ge=0, lt=2**31)]
_ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A numpy archive.",
        "content": {"application/x-npz": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class NonFinites(Body):
    non_finite: list[NonFinite]


class RunTable(Page):
    rows: list[RunTableRow]


class Config(Body):
    segment: int
    declared: dict[str, Scalar]
    effective: dict[str, Scalar]


class CodeChange(Body):
    """`commits`: those of `after` that `before` lacks, oldest first."""

    before: str
    after: str
    commits: list[Commit]


class Difference(Body):
    """By what the segment `after` differs from `before`. `effective`: what was really used, beyond `config`."""

    before: str
    after: str
    config: list[ConfigChange]
    effective: list[ConfigChange]
    mixture: list[ConfigChange]
    environment: list[ConfigChange]
    code: CodeChange
    not_recorded: list[str]


@router.get("/runs/{run_id}/history", response_class=Response, responses=_ARCHIVE)
def history(
    store: StoreDep,
    run_id: str,
    name: str,
    lo: Step = None,
    hi: Step = None,
    view: Literal["canonical", "full"] = "canonical",
) -> Response:
    """Every point of one series, bit for bit: an .npz with `steps`, `values`, `segments`."""
    store.runs.get(run_id)
    found = store.series.read(run_id, name, lo, hi, view)
    return _npz(steps=found.steps, values=found.values, segments=found.segments)


@router.get("/runs/{run_id}/matrix", response_class=Response, responses=_ARCHIVE)
def matrix(
    store: StoreDep, run_id: str, name: Annotated[list[str], Query(min_length=1)], lo: Step = None, hi: Step = None
) -> Response:
    """Canonical values of the named series: an .npz with `names` [N], `steps` [S], `values`, `present` [N, S]."""
    store.runs.get(run_id)
    _require_few(len(name))
    return _npz(**_matrix(store.series.matrix(run_id, name, lo, hi)))


@router.get("/runs/{run_id}/across", response_class=Response, responses=_ARCHIVE)
def across(
    store: StoreDep,
    run_id: str,
    statistic: str,
    lo: Step = None,
    hi: Step = None,
    module: str | None = None,
    layer: Place = None,
    expert: Place = None,
    rank: Place = None,
) -> Response:
    """A statistic over all its layers, experts and ranks, or the given ones: as `matrix`, and `layers`, ... [N].

    Of `layers`, `experts` and `ranks`, -1 means that the name has none.
    """
    store.runs.get(run_id)
    _require_few(len(store.series.names(run_id, statistic=statistic)))
    where = {"layer": layer, "expert": expert, "rank": rank}
    found = store.series.across(run_id, statistic, lo, hi, module=module, **where)
    places = {"layers": _numbers(found.layers), "experts": _numbers(found.experts), "ranks": _numbers(found.ranks)}
    return _npz(**_matrix(found), modules=np.array(found.modules, dtype=np.str_), **places)


@router.get("/runs/{run_id}/around", response_class=Response, responses=_ARCHIVE)
def around(
    store: StoreDep,
    run_id: str,
    name: Annotated[list[str], Query(min_length=1)],
    step: Annotated[list[Annotated[int, Field(ge=-(2**62), lt=2**62)]], Query(min_length=1, max_length=1000)],
    before: Annotated[int, Query(ge=0, le=100_000)] = 50,
    after: Annotated[int, Query(ge=0, le=100_000)] = 50,
) -> Response:
    """Series around changes on one axis: `names` [N], `steps` [C], `offsets` [W], `values`, `present` [C, N, W]."""
    store.runs.get(run_id)
    if len(name) * len(step) * (before + after + 1) > _MAX_CELLS:
        raise UserInputError(f"more than {_MAX_CELLS} values", remedy=_SMALLER)
    found = store.series.around(run_id, name, step, before, after)
    names = np.array(found.names, dtype=np.str_)
    return _npz(names=names, steps=found.steps, offsets=found.offsets, values=found.values, present=found.present)


@router.get("/runs/{run_id}/non-finite", response_model=NonFinites)
def non_finite(store: StoreDep, run_id: str, statistic: str | None = None) -> Answer:
    """The first NaN or infinity of each series that has one, earliest first."""
    store.runs.get(run_id)
    return Answer({"non_finite": store.series.first_non_finite(run_id, statistic)})


@router.get("/run-table", response_model=RunTable)
def run_table(
    store: StoreDep,
    wish: PagingDep,
    project: str | None = None,
    metric: Annotated[list[str] | None, Query()] = None,
    key: Annotated[list[str] | None, Query()] = None,
) -> Answer:
    """Runs with their latest values and declared configuration; without `metric` or `key`, of all names."""
    before = store.runs.get(wish.after).id if wish.after is not None else None
    rows = store.runs.table(project, metric, key, wish.limit + 1, before)
    kept, following = first(rows, wish, lambda each: each.run.id)
    return Answer({"rows": kept, "next": following})


@router.get("/runs/{run_id}/config", response_model=Config)
def config(
    store: StoreDep, run_id: str, segment: Annotated[int | None, Query(ge=0, lt=2**31)] = None, step: Step = None
) -> Answer:
    """What a segment (default: the newest) declared, and what was really used at `step` (default: at its end)."""
    run, found = find_segment(store, run_id if segment is None else f"{run_id}#{segment}")
    return Answer(
        {
            "segment": found.number,
            "declared": store.runs.declared(run.id, found.number),
            "effective": store.runs.effective(run.id, found.number, step),
        }
    )


@router.get("/diff", response_model=Difference)
def diff(store: StoreDep, before: str, after: str) -> Answer:
    """Two runs (their newest segments), or segments as RUN#SEGMENT: config, code, data mixture, environment."""
    return Answer(compare(store, before, after))


def _require_few(num_names: int) -> None:
    if num_names > _MAX_NAMES:
        raise UserInputError(f"{num_names} series are more than {_MAX_NAMES}", remedy=_SMALLER)


def require_matrix(found: SeriesMatrix) -> None:
    """Raises UserInputError when it is too large to be worked on."""
    if found.values.size > _MAX_CELLS:
        raise UserInputError(f"{found.values.size} values are more than {_MAX_CELLS}", remedy=_SMALLER)


def _matrix(found: SeriesMatrix) -> dict[str, NDArray[Any]]:
    require_matrix(found)
    names = np.array(found.names, dtype=np.str_)
    return {"names": names, "steps": found.steps, "values": found.values, "present": found.present}


def _numbers(found: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([-1 if number is None else number for number in found], dtype=np.int64)


def _npz(**arrays: NDArray[Any]) -> Response:
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    return Response(packed.getvalue(), media_type="application/x-npz")
