"""A recipe in progress over its stages, in step with the other processes that compute it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.corpus import Corpus, corpus_of
from trainer.loader import NOTHING_READ
from trainer.optim import ParameterState
from trainer.ranks.alone import Ranks
from trainer.recipe import PlannedStage, Recipe, stage_of
from trainer.samples import sample_space
from trainer.tiny_sft import for_answers
from trainer.training import StepRecord, Training, TrainingState


class StagedTraining:
    """What a segment drives. A resume at a stage's first step begins the stage, as going on would have."""

    def __init__(
        self, recipe: Recipe, state: TrainingState | None, clock: Callable[[], float], ranks: Ranks | None = None
    ) -> None:
        """`state` is that of the first process. Raises ConfigError as `Training` does."""
        self._recipe, self._plan, self._clock = recipe, recipe.plan(), clock
        self._ranks = ranks or Ranks()
        state = self._ranks.shared(state)
        self._effective: dict[str, Scalar] = {}
        self._enter(self._plan[0] if state is None else stage_of(self._plan, state.step), state)

    @property
    def step(self) -> int:
        return self._training.step

    @property
    def config(self) -> TrainConfig:
        """Of the present stage."""
        return self._stage.config

    @property
    def ends_stage_early(self) -> bool:
        """The present stage is over and another one follows."""
        return self.step == self._stage.last_step and self._stage is not self._plan[-1]

    def advance(self) -> StepRecord:
        """Do one optimizer step, in the next stage where the present one has ended."""
        self._ranks.announce("advance")
        if self.ends_stage_early:
            self._enter(stage_of(self._plan, self.step), self._training.state())
        record = self._training.advance()
        effective, self._effective = self._effective, {}
        return replace(record, effective=dict(record.effective) | effective)

    def state(self) -> TrainingState:
        """As `Training.state`."""
        self._ranks.announce("state")
        return self._training.state()

    def rewind(self, state: TrainingState | None) -> None:
        """As `Training.rewind`."""
        self._ranks.announce("rewind")
        self._training.rewind(self._ranks.shared(state))

    def obey(self, order: str) -> None:
        """What another process than the first does when the first announces its own call."""
        if order == "rewind":
            self._training.rewind(self._ranks.shared(None))
        else:
            getattr(self, order)()

    def _enter(self, stage: PlannedStage, state: TrainingState | None) -> None:
        self.corpus = corpus = corpus_of(stage.config.data, stage.config.model.vocab_size)
        before = state
        if state is not None:
            state = _begun(stage, state, corpus, is_staged=len(self._plan) > 1)
        self._stage = stage
        recipe = Recipe(config=stage.config, parts=self._recipe.parts)
        self._training = Training(recipe, corpus, state, self._clock, self._ranks)
        if stage.name and (before is None or before.step == stage.first_step):
            self._effective = self._facts(stage, before)

    def _facts(self, stage: PlannedStage, before: TrainingState | None) -> dict[str, Scalar]:
        """What the switch did: the fields it changed, and the optimizer's state on both sides."""
        base = self._recipe.config.flat()
        changed: dict[str, Scalar] = {key: value for key, value in stage.config.flat().items() if base[key] != value}
        facts: dict[str, Scalar] = {
            "stage.name": stage.name,
            "stage.optimizer_sha256": optimizer_hash(self._training.state().optimizer),
        }
        if before is not None:
            facts["stage.optimizer_sha256_before"] = optimizer_hash(before.optimizer)
        return changed | facts


def optimizer_hash(states: Mapping[str, ParameterState]) -> str:
    """SHA-256 of all moments and ages; equal for states that act alike, such as none and one without updates."""
    digest = hashlib.sha256()
    for name, kept in sorted(states.items()):
        if kept.age:
            digest.update(f"{name} {kept.optimizer} {kept.age}".encode())
            for key in sorted(kept.tensors):
                digest.update(key.encode() + kept.tensors[key].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _begun(stage: PlannedStage, state: TrainingState, corpus: Corpus, *, is_staged: bool) -> TrainingState:
    """The state with which a stage goes on, or begins where `state` ends another."""
    is_answers = stage.config.data.documents == "answers"
    space = sample_space(corpus, stage.config.data)
    if not is_staged:
        return for_answers(state, space) if is_answers else state
    if state.step != stage.first_step:
        return state
    if is_answers and state.loader.sample_space != space:
        state = replace(state, loader=NOTHING_READ)
    return replace(state, optimizer={}) if stage.resets_optimizer else state
