"""Scores of evaluations: listed, ranked among those that may be compared, two side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from context_store.records import Comparison, LeftOut, Ranking, Score
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_ID, Body, Page, PagingDep, page

router = APIRouter(prefix="/evals", tags=["evals"])
_Name = Annotated[str | None, Query(max_length=500)]
_Id = Annotated[int, Query(ge=1, le=MAX_ID)]


_ALL = 1_000_000


class ScorePage(Page):
    scores: list[Score]


class OneScore(Body):
    score: Score


class Rankings(Body):
    """Groups of scores that may be compared; never across groups: `apart` says why one stands apart from the first.

    `left_out`: scores of imported logs that were not stored, because nothing says what they are of.
    """

    rankings: list[Ranking]
    left_out: list[LeftOut]


class Compared(Body):
    comparison: Comparison


@router.get("", response_model=ScorePage)
def scores(
    store: StoreDep, wish: PagingDep, project_id: _Name = None, run_id: _Name = None, benchmark: _Name = None
) -> Answer:
    """All of them, or those of a project, run or benchmark."""
    every = store.evals.list(project_id=project_id, run_id=run_id, benchmark=benchmark, limit=_ALL)
    found, following = page(every, wish, lambda each: each.id)
    return Answer({"scores": found, "next": following})


@router.get("/rank", response_model=Rankings)
def rank(
    store: StoreDep,
    benchmark: Annotated[str, Query(max_length=500)],
    metric: _Name = None,
    project_id: _Name = None,
    lowest_first: bool = False,
) -> Answer:
    """Scores of a benchmark in groups that may be compared, the largest group first."""
    found = store.evals.rank(benchmark, metric, project_id=project_id, lowest_first=lowest_first)
    return Answer({"rankings": found, "left_out": store.evals.left_out(benchmark, project_id)})


@router.get("/compare", response_model=Compared)
def compare(store: StoreDep, before: _Id, after: _Id) -> Answer:
    """Two scores, and whether they may be compared at all."""
    return Answer({"comparison": store.evals.compare(before, after)})


@router.get("/{score_id}", response_model=OneScore)
def score(store: StoreDep, score_id: Annotated[int, Path(ge=1, le=MAX_ID)]) -> Answer:
    """One score with its whole identity."""
    return Answer({"score": store.evals.get(score_id)})
