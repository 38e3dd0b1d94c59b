"""Experiments of the dual loop: where each stands, and the edges it passed."""

from __future__ import annotations

from fastapi import APIRouter

from context_store.records import Experiment, ExperimentStep
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page

router = APIRouter(prefix="/experiments", tags=["experiments"])


class ExperimentPage(Page):
    experiments: list[Experiment]


class OneExperiment(Body):
    """`history`: oldest first, each with the approval or the reservation that allowed it."""

    experiment: Experiment
    history: list[ExperimentStep]


@router.get("", response_model=ExperimentPage)
def experiments(store: StoreDep, wish: PagingDep) -> Answer:
    """Newest first."""
    found, following = page(store.experiments.list(), wish, lambda each: each.id)
    return Answer({"experiments": found, "next": following})


@router.get("/{experiment_id}", response_model=OneExperiment)
def experiment(store: StoreDep, experiment_id: str) -> Answer:
    """One experiment."""
    found = store.experiments.get(experiment_id)
    return Answer({"experiment": found, "history": store.experiments.history(experiment_id)})
