"""GET /runs and what belongs to a run: series, points, timeline."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from contracts.enums import RunRole
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer

router = APIRouter(prefix="/runs", tags=["runs"])
_MAX_NAMES = 200


@router.get("")
def runs(
    store: StoreDep,
    role: RunRole | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: str | None = None,
) -> Answer:
    """Newest first; `before` is the id of the last run of the page before."""
    return Answer({"runs": store.runs.list(role=role, limit=limit, before=before)})


@router.get("/{run_id}")
def run(store: StoreDep, run_id: str) -> Answer:
    """`latest`: last value of each whole-model statistic."""
    found = store.runs.get(run_id)
    names = [name for name in store.series.names(run_id) if "/" not in name]
    return Answer(
        {
            "run": found,
            "segments": store.runs.segments(run_id),
            "checkpoints": store.runs.checkpoints(run_id),
            "latest": store.series.latest([run_id], names).get(run_id, {}),
        }
    )


@router.get("/{run_id}/series")
def series(store: StoreDep, run_id: str, statistic: str | None = None) -> Answer:
    """Names of the run's series."""
    store.runs.get(run_id)
    return Answer({"names": store.series.names(run_id, statistic=statistic)})


@router.get("/{run_id}/points")
def points(
    store: StoreDep,
    run_id: str,
    name: Annotated[list[str], Query(min_length=1, max_length=_MAX_NAMES)],
    buckets: Annotated[int, Query(ge=1, le=5000)] = 600,
    lo: Annotated[int | None, Query(ge=0)] = None,
    hi: Annotated[int | None, Query(ge=0)] = None,
    view: Literal["canonical", "full"] = "canonical",
) -> Answer:
    """Downsampled; extremes, first, last and every non-finite point are kept. `full`: superseded points too."""
    store.runs.get(run_id)
    return Answer({"series": [store.series.downsample(run_id, each, buckets, lo, hi, view) for each in name]})


@router.get("/{run_id}/timeline")
def timeline(store: StoreDep, run_id: str) -> Answer:
    """What changed or happened, by step."""
    store.runs.get(run_id)
    return Answer({"events": store.timeline.list(run_id)})
