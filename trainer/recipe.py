"""What a project hands to the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from contracts.errors import ConfigError
from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.parts import Parts
from trainer.weights import parameter_shapes

_PREFIX = "stages."
_OWN_SCHEDULE = "schedule."


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stretch of a training: for how long, what is different in it, and with which optimizer state it begins.

    `changes` are config fields by dotted key, on top of the recipe's config. A stage that changes the schedule starts
    it at its own first step; in any other the schedule goes on.
    """

    name: str
    steps: int
    changes: Mapping[str, Scalar] = field(default_factory=dict)
    optimizer: Literal["kept", "reset"] = "kept"
    about: str = ""  # for the plan


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """A stage with its place: it does the steps from `first_step` (done before it) up to `last_step`."""

    name: str
    first_step: int
    last_step: int
    config: TrainConfig
    resets_optimizer: bool = False
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training, of `config.steps` or of stages. A project's `recipe.py` holds `def recipe() -> Recipe`."""

    config: TrainConfig = field(default_factory=TrainConfig)
    parts: Parts = field(default_factory=Parts)
    stages: tuple[Stage, ...] = ()
    stock: Mapping[str, float] = field(default_factory=dict)  # unique tokens of sources, for the plan

    def __post_init__(self) -> None:
        """Raises ConfigError when two stages have one name."""
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names) or any("." in name or not name for name in names):
            raise ConfigError(
                f"stages are named {', '.join(map(repr, names))}", remedy="give each a name of its own without dots"
            )

    def with_overrides(self, overrides: Mapping[str, Scalar]) -> Recipe:
        """Config fields of every stage, or `stages.NAME.FIELD` of one.

        Raises ConfigError for what does not exist, and for a field that a stage sets itself, where it would do nothing.
        """
        own = {key: value for key, value in overrides.items() if not key.startswith(_PREFIX)}
        for key in own:
            self._check_is_not_set(key, overrides)
        stages = {stage.name: stage for stage in self.stages}
        for key, value in overrides.items():
            if key.startswith(_PREFIX):
                name, _, changed = key.removeprefix(_PREFIX).partition(".")
                if name not in stages:
                    known = ", ".join(stages) or "none"
                    raise ConfigError(f"'{key}' names no stage of the recipe", remedy=f"its stages are: {known}")
                stages[name] = _changed(stages[name], changed, value)
        return replace(self, config=self.config.with_overrides(own), stages=tuple(stages.values()))

    def _check_is_not_set(self, key: str, overrides: Mapping[str, Scalar]) -> None:
        names = [f"{_PREFIX}{s.name}.{key}" for s in self.stages if key == "steps" or key in s.changes]
        if vain := [name for name in names if name not in overrides]:
            raise ConfigError(
                f"'{key}' would do nothing in a stage that sets it itself: {vain[0].split('.')[1]}",
                remedy=f"set {' and '.join(vain)}",
            )

    def plan(self) -> tuple[PlannedStage, ...]:
        """All stages in order. Raises ConfigError for a change that a training cannot make on its way."""
        if not self.stages:
            return (PlannedStage(name="", first_step=0, last_step=self.config.steps, config=self.config),)
        planned: list[PlannedStage] = []
        first, config = 0, self.config
        for stage in self.stages:
            starts = any(key.startswith(_OWN_SCHEDULE) for key in stage.changes)
            begin = {"schedule.from_step": first} if starts or not planned else {}
            kept = {} if starts or not planned else _schedule_of(config)
            config = self.config.with_overrides({**kept, **begin, **stage.changes, "steps": first + stage.steps})
            planned.append(
                PlannedStage(
                    name=stage.name,
                    first_step=first,
                    last_step=first + stage.steps,
                    config=config,
                    resets_optimizer=stage.optimizer == "reset",
                    about=stage.about,
                )
            )
            first += stage.steps
        _check(planned)
        return tuple(planned)


def stage_of(plan: tuple[PlannedStage, ...], step: int) -> PlannedStage:
    """The stage that does the 0-based `step`; the last one behind the end."""
    return next((stage for stage in plan if step < stage.last_step), plan[-1])


def _changed(stage: Stage, name: str, value: Scalar) -> Stage:
    if name != "steps":
        return replace(stage, changes=dict(stage.changes) | {name: value})
    if not str(value).isdigit() or int(str(value)) < 1:
        raise ConfigError(f"stages.{stage.name}.steps is {value!r}", remedy="give a number of steps above 0")
    return replace(stage, steps=int(str(value)))


def _schedule_of(config: TrainConfig) -> dict[str, Scalar]:
    return {key: value for key, value in config.flat().items() if key.startswith(_OWN_SCHEDULE)}


def _check(planned: list[PlannedStage]) -> None:
    for before, stage in pairwise(planned):
        _check_shapes(before, stage)
        parallel, first = stage.config.parallel, planned[0].config.parallel
        fields = ("processes", "dp_size", "cp_size", "ep_size")
        different = [name for name in fields if getattr(parallel, name) != getattr(first, name)]
        if different and (parallel.processes or first.processes):
            raise ConfigError(
                f"stage {stage.name} changes parallel.{different[0]}, but the processes stay the same throughout",
                remedy="stop at the stage's beginning and resume with other parallel.* fields",
            )


def _check_shapes(before: PlannedStage, stage: PlannedStage) -> None:
    """A stage may gain or lose parameters, but goes on with the weights of the others."""
    shapes, now = (parameter_shapes(each.config.model, each.config.moe, each.config.mtp) for each in (before, stage))
    different = [name for name in now if name in shapes and shapes[name] != now[name]]
    if different:
        raise ConfigError(
            f"stage {stage.name} changes the shape of '{different[0]}' from {shapes[different[0]]} to "
            f"{now[different[0]]}, but goes on with the weights of stage {before.name}",
            remedy="give its model.* and moe.* sizes to all stages",
        )
