"""Experiments of the dual loop: begin and stop them, see where each stands and which edges it passed.

What a person has to decide is a proposal like any other (kind `next_stage`).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, StringConstraints

from context_store import Store
from context_store.records import Amount, BudgetState, Experiment, ExperimentStep
from contracts.events import Scalar
from control_plane import experiments as drive
from control_plane.api.access import ClockDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_ID, Body, Page, PagingDep, Reason, Text, page
from loops.dual import Arm, Question

router = APIRouter(prefix="/experiments", tags=["experiments"])
_MAX_STEPS = 2**40
_Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class ExperimentPage(Page):
    experiments: list[Experiment]


class OneExperiment(Body):
    """`history`: oldest first, each with the approval or the reservation that allowed it. `plan`: null where none was
    given: then no worker drives it."""

    experiment: Experiment
    plan: dict[str, Any] | None
    budget: BudgetState
    history: list[ExperimentStep]


class NewArm(Body):
    """What to try: settings otherwise than the run's."""

    name: _Name
    overrides: dict[_Name, Scalar] = Field(min_length=1, max_length=50)


class NewExperiment(Body):
    """Re-runs of a run from a checkpoint (the newest at or before `from_step`), one for each arm and one that changes
    nothing. `cpu_s`, `wall_s`, `reruns`: what they may spend together; they begin once the plan is approved."""

    id: _Id
    title: Text
    run_id: Text
    arms: list[NewArm] = Field(min_length=1, max_length=8)
    num_steps: int = Field(ge=1, le=_MAX_STEPS)
    metric: _Name = "loss"
    from_step: int | None = Field(default=None, ge=0, le=MAX_ID)
    max_iterations: int = Field(default=2, ge=1, le=100)
    cpu_s: float = Field(gt=0, allow_inf_nan=False)
    wall_s: float = Field(gt=0, allow_inf_nan=False)
    reruns: int = Field(ge=1, le=10_000)


class Stop(Body):
    reason: Reason


@router.get("", response_model=ExperimentPage)
def experiments(store: StoreDep, wish: PagingDep) -> Answer:
    """Newest first."""
    found, following = page(store.experiments.list(), wish, lambda each: each.id)
    return Answer({"experiments": found, "next": following})


@router.get("/{experiment_id}", response_model=OneExperiment)
def experiment(store: StoreDep, experiment_id: str) -> Answer:
    """One experiment."""
    return Answer(_whole(store, store.experiments.get(experiment_id)))


@router.post("", status_code=HTTPStatus.CREATED, response_model=OneExperiment)
def start(store: StoreDep, clock: ClockDep, principal: ResearcherDep, wish: NewExperiment) -> Answer:
    """Begin one: a worker proposes its plan, which somebody has to approve."""
    arms = [Arm(name=arm.name, overrides=arm.overrides) for arm in wish.arms]
    question = Question(
        run_id=wish.run_id, arms=arms, num_steps=wish.num_steps, metric=wish.metric, from_step=wish.from_step,
        max_iterations=wish.max_iterations,
    )  # fmt: skip
    amount = Amount(cpu_s=wish.cpu_s, wall_s=wish.wall_s, reruns=wish.reruns)
    new = drive.NewExperiment(id=wish.id, title=wish.title, question=question, amount=amount)
    made = drive.start(store, new, principal.name, clock())
    return Answer(_whole(store, made), status_code=HTTPStatus.CREATED)


@router.post("/{experiment_id}/stop", response_model=OneExperiment)
def stop(store: StoreDep, principal: ResearcherDep, experiment_id: str, wish: Stop) -> Answer:
    """End it where it stands; what it has not spent goes back."""
    return Answer(_whole(store, drive.stop(store, experiment_id, principal.name, wish.reason)))


def _whole(store: Store, found: Experiment) -> dict[str, Any]:
    return {
        "experiment": found,
        "plan": store.experiments.plan(found.id),
        "budget": store.budgets.state(found.budget_id),
        "history": store.experiments.history(found.id),
    }
