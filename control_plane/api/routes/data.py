"""Data pipelines and the subsets that came out of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from context_store.records import MixtureEvent, Pipeline, StageVersion, Subset
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page

router = APIRouter(prefix="/data", tags=["data"])


class PipelinePage(Page):
    pipelines: list[Pipeline]


class OnePipeline(Body):
    """`versions`: the code and settings that its stages had."""

    pipeline: Pipeline
    versions: list[StageVersion]


class SubsetPage(Page):
    subsets: list[Subset]


class OneSubset(Body):
    subset: Subset


class Mixture(Body):
    """`events`: every weight that was set or changed; `weights`: those in force at the end."""

    events: list[MixtureEvent]
    weights: dict[str, float]


@router.get("/pipelines", response_model=PipelinePage)
def pipelines(store: StoreDep, wish: PagingDep) -> Answer:
    """By id."""
    found, following = page(store.data.pipelines(), wish, lambda each: each.id)
    return Answer({"pipelines": found, "next": following})


@router.get("/pipelines/{pipeline_id:path}", response_model=OnePipeline)
def pipeline(store: StoreDep, pipeline_id: str) -> Answer:
    """One pipeline with its stages."""
    found = store.data.pipeline(pipeline_id)
    return Answer({"pipeline": found, "versions": store.data.stage_versions(pipeline_id)})


@router.get("/subsets", response_model=SubsetPage)
def subsets(
    store: StoreDep, wish: PagingDep, pipeline_id: Annotated[str | None, Query(max_length=500)] = None
) -> Answer:
    """By id, each with its lineage."""
    found, following = page(store.data.subsets(pipeline_id), wish, lambda each: each.id)
    return Answer({"subsets": found, "next": following})


@router.get("/subsets/{subset_id:path}", response_model=OneSubset)
def subset(store: StoreDep, subset_id: str) -> Answer:
    """One subset."""
    return Answer({"subset": store.data.subset(subset_id)})


@router.get("/mixture", response_model=Mixture)
def mixture(store: StoreDep, run_id: Annotated[str, Query(max_length=500)]) -> Answer:
    """The data mixture of a run over its steps."""
    store.runs.get(run_id)
    return Answer({"events": store.data.mixture_events(run_id), "weights": store.data.mixture(run_id)})
