"""One training in memory: weights, optimizer, data and their state. Knows nothing of files and processes."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from contracts.errors import ConfigError
from contracts.events import Scalar
from trainer.backward import StepGradients, step_gradients
from trainer.balance import moved_choice_biases
from trainer.corpus import Corpus
from trainer.groups import assign_groups
from trainer.loader import Loader, LoaderState
from trainer.metrics import Statistics
from trainer.model import LanguageModel
from trainer.mtp import grown
from trainer.optim import Optimizer, ParameterState
from trainer.ranks.alone import Ranks
from trainer.recipe import Recipe
from trainer.stopwatch import Stopwatch
from trainer.weights import buffer_shapes, initial_buffers, initial_weights, parameter_shapes


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """All that decides how a training goes on, beside its config and code. Random numbers depend on seed and step."""

    step: int  # optimizer steps done
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, ParameterState]
    loader: LoaderState


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What one optimizer step did."""

    step: int  # 1-based
    values: Mapping[str, float]
    effective: Mapping[str, Scalar]
    sample_hash: str
    consumed: int


class Training:
    """A recipe in progress. Equal recipe, corpus and state give equal bits on one thread."""

    def __init__(
        self,
        recipe: Recipe,
        corpus: Corpus,
        state: TrainingState | None,
        clock: Callable[[], float],
        ranks: Ranks | None = None,
    ) -> None:
        """`clock` gives seconds, for the speed only; `ranks` are the processes that do each step together.

        Raises ConfigError when `state` has weights of another shape.
        """
        config, parts = recipe.config, recipe.parts
        self._ranks = ranks = ranks or Ranks()
        ranks.begin(config, clock)
        self.step = state.step if state else 0
        self._config, self._parts, self._clock = config, parts, clock
        self._groups = assign_groups(
            parameter_shapes(config.model, config.moe, config.mtp), parts.parameter_group, config.optim
        )
        self._load(state)
        self._used_groups = tuple(dict.fromkeys(self._groups.values()))
        self._loader = Loader(config, parts, corpus, state.loader if state else None, self.step)
        self._model = LanguageModel(config, parts, ranks)
        self._statistics = Statistics(config, self._optimizer.names, ranks)
        self._constant = self._constant_settings()

    def _load(self, state: TrainingState | None) -> None:
        config = self._config
        shapes = parameter_shapes(config.model, config.moe, config.mtp)
        values = initial_weights(config)
        self._buffers = initial_buffers(config)
        if state:
            values |= _matching(grown(state.weights, shapes), shapes)
            self._buffers |= _matching(state.weights, buffer_shapes(config))
        states = {name: self._cut(name, kept) for name, kept in (state.optimizer if state else {}).items()}
        cuts = self._ranks.hold(values)
        self._optimizer = Optimizer(
            cuts, self._groups, config.optim, config.muon, states, config.model.head_dim, self._ranks
        )

    def _cut(self, name: str, kept: ParameterState) -> ParameterState:
        return replace(kept, tensors={key: self._ranks.cut(name, tensor) for key, tensor in kept.tensors.items()})

    def rewind(self, state: TrainingState | None) -> None:
        """Take back weights and optimizer to those of `state` (None: the initial ones). Steps and data go on."""
        self._load(state)
        self._constant["numerics.rewound_to"] = state.step if state else 0

    def advance(self) -> StepRecord:
        """Do one optimizer step."""
        step, config = self.step, self._config
        watch = Stopwatch(self._clock, has_laps=self._statistics.detail_is_due(step))
        _seed_generators(config.seed, step)
        batch = self._loader.read(step)
        watch.lap("data")
        weights = self._optimizer.weights | self._buffers
        names = self._optimizer.names
        found = step_gradients(self._model, weights, names, batch.sequences, step, config, watch, self._ranks)
        before = self._statistics.norms(step, [*self._optimizer.weights.values()], found.grads)
        grad_norm = float(torch.linalg.vector_norm(before.grad_P))
        multiplier = self._parts.learning_rate(step, config.schedule)
        is_skipped = config.numerics.on_nonfinite in ("skip", "rewind") and not _is_finite(found, grad_norm)
        update = self._unchanged() if is_skipped else self._update(found, grad_norm, multiplier, step)
        watch.lap("optimizer")
        values = self._statistics.measure(step, found.forward, before, update, batch.source_B, self._buffers)
        if config.numerics.on_nonfinite in ("skip", "rewind"):
            values["skipped_update"] = float(is_skipped)
        values["data_position"] = float(batch.next_position)
        values["repeated_samples"] = float(batch.repeated)
        values |= batch.statistics
        for group in self._used_groups:
            values[f"lr/group.{group}"] = self._config.optim.group(group).lr * multiplier
            values[f"weight_decay/group.{group}"] = self._config.optim.group(group).weight_decay
        watch.lap("statistics")
        values |= {f"step_time_s/{part}": seconds for part, seconds in watch.laps.items()}
        values |= {f"step_time_s/computing@rank={rank}": s for rank, s in enumerate(self._ranks.computing_s())}
        values |= {f"self_check@rank={rank}": apart for rank, apart in enumerate(self._ranks.self_check())}
        values["step_time_s"] = elapsed = watch.elapsed()
        values["tokens_per_second"] = self._config.data.batch_size * self._config.data.seq_len / elapsed
        self.step += 1
        return StepRecord(
            step=self.step,
            values=values,
            effective=self._effective(step),
            sample_hash=batch.sample_hash,
            consumed=self._loader.consumed,
        )

    def state(self) -> TrainingState:
        """Views of the present state: write or copy it before the next step."""
        weights = {name: weight.detach() for name, weight in self._optimizer.weights.items()}
        return TrainingState(
            step=self.step,
            weights=self._ranks.whole(weights) | self._buffers,
            optimizer=self._whole_states(),
            loader=self._loader.state(),
        )

    def _whole_states(self) -> dict[str, ParameterState]:
        states = self._optimizer.states()
        keys = {key for kept in states.values() for key in kept.tensors}
        wholes = {
            key: self._ranks.whole({name: kept.tensors[key] for name, kept in states.items() if key in kept.tensors})
            for key in sorted(keys)
        }
        return {
            name: replace(kept, tensors={key: wholes[key][name] for key in kept.tensors})
            for name, kept in states.items()
        }

    def _update(self, found: StepGradients, grad_norm: float, multiplier: float, step: int) -> Mapping[str, Tensor]:
        """Norm of each group's update, where it is due."""
        scale = self._clip_scale(grad_norm, step)
        rate, only_mtp = self._config.moe.choice_bias_rate, self._config.mtp.freezes_main(step)
        measure = self._statistics.norms_are_due(step)
        update = self._optimizer.step(found.grads, scale, multiplier, only_mtp=only_mtp, measure=measure)
        self._ranks.publish(self._optimizer.weights)
        self._buffers = moved_choice_biases(self._buffers, found.forward.count_LE, rate, only_mtp=only_mtp)
        return update

    def _unchanged(self) -> Mapping[str, Tensor]:
        return {group: torch.zeros(()) for group in self._used_groups}

    def _clip_scale(self, grad_norm: float, step: int) -> float:
        clip = self._config.clip
        if not clip.max_norm or step < clip.from_step or not grad_norm > clip.max_norm:
            return 1.0
        return clip.max_norm / grad_norm

    def _constant_settings(self) -> dict[str, Scalar]:
        return {
            **self._optimizer.effective(),
            "parallel.dp_size": self._config.parallel.dp_size,
            "data.batch_size": self._config.data.batch_size,
            "moe.balance.scope": self._config.moe.balance.scope,
        }

    def _effective(self, step: int) -> dict[str, Scalar]:
        moe = self._config.moe
        mixture = {f"data.mixture.{name}": weight for name, weight in self._loader.mixture(step).items()}
        return {
            **self._constant,
            **mixture,
            "moe.balance.coef": moe.balance.coefficient(step),
            "moe.z_loss.coef": moe.z_loss.coefficient(step),
            **({"mtp.coef": self._config.mtp.coefficient(step)} if self._config.mtp.num_modules else {}),
        }


def _matching(stored: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Stored weights that the model still has; a parameter it gained keeps its initial value."""
    kept = {name: weight for name, weight in stored.items() if name in shapes}
    for name, weight in kept.items():
        if tuple(weight.shape) != shapes[name]:
            raise ConfigError(
                f"the checkpoint's '{name}' has shape {tuple(weight.shape)}, the config asks for {shapes[name]}",
                remedy="resume with the model.* and moe.* sizes of the checkpoint, or start from random weights",
            )
    return kept


def _is_finite(found: StepGradients, grad_norm: float) -> bool:
    return math.isfinite(grad_norm) and math.isfinite(float(found.forward.loss.detach()))


def _seed_generators(seed: int, step: int) -> None:
    """Every global generator restarts from (seed, step), so that a resumed step draws what the first one drew."""
    digest = hashlib.sha256(f"{seed} step {step}".encode()).digest()
    torch.default_generator.manual_seed(int.from_bytes(digest[:7], "big"))
    np.random.seed(int.from_bytes(digest[8:12], "big"))
    random.seed(digest)
