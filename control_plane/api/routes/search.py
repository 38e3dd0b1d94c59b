"""Search in everything textual, and why something is believed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from context_store.records import Hit, SearchFilter, TextKind
from context_store.why import Why
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body

router = APIRouter(tags=["search"])
_Name = Annotated[str | None, Query(max_length=500)]
_Step = Annotated[int | None, Query(ge=-(2**63), lt=2**63)]
_Time = Annotated[float | None, Query(ge=0, le=1e11, allow_inf_nan=False)]


class Hits(Body):
    hits: list[Hit]


class Reasons(Body):
    why: Why


@router.get("/search", response_model=Hits)
def search(
    store: StoreDep,
    q: Annotated[str, Query(min_length=1, max_length=2000)],
    kind: Annotated[list[TextKind] | None, Query()] = None,
    project_id: _Name = None,
    run_id: _Name = None,
    layer: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    field: _Name = None,
    lo: _Step = None,
    hi: _Step = None,
    since: _Time = None,
    until: _Time = None,
    outcome: _Name = None,
    limit: Annotated[int, Query(ge=1, le=60)] = 10,
) -> Answer:
    """The best hits by words and by meaning; the rest as in context_store.records.SearchFilter."""
    chosen = SearchFilter(
        kinds=tuple(kind or ()), project_id=project_id, run_id=run_id, layer=layer, field=field, lo=lo, hi=hi,
        since=since, until=until, outcome=outcome,
    )  # fmt: skip
    return Answer({"hits": store.search.find(q, chosen, limit)})


@router.get("/why", response_model=Reasons)
def why(
    store: StoreDep,
    kind: Annotated[str, Query(max_length=50)],
    id: Annotated[str, Query(max_length=1000)],  # noqa: A002 - the word for it
) -> Answer:
    """Everything the object `kind:id` rests on, down to raw points, lines and fields."""
    return Answer({"why": store.why.of(kind, id)})
