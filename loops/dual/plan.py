"""What an experiment on a run is to find out: which changes of its configuration, from which checkpoint, how long."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from context_store import Store
from context_store.records import Amount
from contracts.errors import UserInputError
from contracts.events import Scalar
from loops.core import WALL_PER_CPU

CONTROL = "control"  # the arm that changes nothing
MAX_ARMS = 8
MAX_HORIZONS = 3  # of one iteration; each is twice as long as the one before
_START_UP_S = 12.0  # of a training process
_SLACK = 2.0  # a re-run beside others is slower than the recorded run


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One thing to try: what it sets otherwise than the run."""

    name: str
    overrides: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`arms` of the first iteration, without the control. All start from `start_checkpoint` ("" random weights) with
    the code of `segment` and go on for `num_steps` steps; the smaller `metric` is there, the better."""

    run_id: str
    project_id: str
    entry: str
    segment: int
    code_version: str
    start_checkpoint: str
    start_step: int
    num_steps: int
    metric: str
    arms: tuple[Arm, ...]
    max_iterations: int
    step_s: float  # of the recorded run, for the price

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Plan:
        arms = tuple(Arm(**arm) for arm in fields["arms"])
        return cls(**{**fields, "arms": arms})

    def max_step(self, horizon: int) -> int:
        """Where re-runs of the analysis number `horizon`, counted from 0, end."""
        return self.start_step + self.num_steps * (1 << horizon)

    def price(self, horizon: int) -> Amount:
        """At most, of one re-run."""
        cpu_s = _START_UP_S + _SLACK * self.step_s * self.num_steps * (1 << horizon)
        return Amount(cpu_s=cpu_s, reruns=1, wall_s=WALL_PER_CPU * cpu_s)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a person asks for. `from_step`: the newest checkpoint at or before it; None takes the newest of all."""

    run_id: str
    arms: Sequence[Arm]
    num_steps: int
    metric: str = "loss"
    from_step: int | None = None
    max_iterations: int = 2


def make_plan(store: Store, question: Question) -> Plan:
    """Raises NotFound without the run, UserInputError where there is nothing to start from, measure or try."""
    run = store.runs.get(question.run_id)
    names = [arm.name for arm in question.arms]
    if not names or len(set(names)) < len(names) or CONTROL in names or not all(names):
        raise UserInputError(
            f"an experiment needs arms with names of their own, none called {CONTROL}",
            remedy="name what each of them tries, for instance half-lr",
        )
    if question.metric not in store.series.names(run.id):
        raise UserInputError(
            f"run {run.id} has no series {question.metric}", remedy=f"lathe timeline {run.id} shows what it logs"
        )
    step = run.last_step if question.from_step is None else question.from_step
    checkpoint = store.runs.checkpoint_at_or_before(run.id, step)
    if checkpoint is None:
        raise UserInputError(
            f"run {run.id} has no checkpoint at or before step {step}", remedy="choose a later step, or another run"
        )
    segments = {each.number: each for each in store.runs.segments(run.id)}
    times = store.series.read(run.id, "step_time_s").values if "step_time_s" in store.series.names(run.id) else ()
    return Plan(
        run_id=run.id,
        project_id=run.project_id,
        entry=store.projects.get(run.project_id).entry,
        segment=checkpoint.segment,
        code_version=segments[checkpoint.segment].code_version,
        start_checkpoint=checkpoint.path,
        start_step=checkpoint.step,
        num_steps=question.num_steps,
        metric=question.metric,
        arms=tuple(question.arms),
        max_iterations=question.max_iterations,
        step_s=float(np.median(times)) if len(times) else 0.5,
    )


def arms_after(best: Arm, declared: Mapping[str, Scalar]) -> tuple[Arm, ...]:
    """What to try around the best arm: as far again in the same direction, and half way back.

    Of its numbers only, on a scale of ratios; nothing for words, switches and what was or became 0.
    """
    further: dict[str, Scalar] = dict(best.overrides)
    back: dict[str, Scalar] = dict(best.overrides)
    moved = False
    for name, value in best.overrides.items():
        before = declared.get(name)
        if not _is_number(value) or not _is_number(before) or value * before <= 0 or value == before:
            continue
        ratio = value / before
        further[name], back[name] = value * ratio, math.copysign(math.sqrt(value * before), value)
        moved = True
    if not moved:
        return ()
    return (best, Arm(name=f"{best.name}, further", overrides=further), Arm(name=f"{best.name}, half", overrides=back))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
