"""One training in memory: weights, optimizer, data and their state. Knows nothing of files and processes."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contracts.errors import ConfigError
from contracts.events import Scalar
from trainer.corpus import Corpus
from trainer.groups import assign_groups
from trainer.loader import Loader, LoaderState
from trainer.metrics import Norms, Statistics
from trainer.model import LanguageModel
from trainer.optim import Optimizer, ParameterState
from trainer.recipe import Recipe
from trainer.weights import initial_weights, parameter_shapes


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

    def __init__(self, recipe: Recipe, corpus: Corpus, state: TrainingState | None, clock: Callable[[], float]) -> None:
        """`clock` gives seconds, for the speed only. Raises ConfigError when `state` has weights of another shape."""
        config, parts = recipe.config, recipe.parts
        self.step = state.step if state else 0
        self._config, self._parts, self._clock = config, parts, clock
        shapes = parameter_shapes(config.model, config.moe)
        groups = assign_groups(shapes, parts.parameter_group, config.optim)
        values = initial_weights(config)
        if state:
            values |= _matching(state.weights, shapes)
        self._optimizer = Optimizer(values, groups, config.optim, config.muon, state.optimizer if state else {})
        self._used_groups = tuple(dict.fromkeys(groups.values()))
        self._loader = Loader(config, parts, corpus, state.loader if state else None, self.step)
        self._model = LanguageModel(config, parts)
        self._statistics = Statistics(config, self._optimizer.names)
        self._constant = self._constant_settings()

    def advance(self) -> StepRecord:
        """Do one optimizer step."""
        started, step = self._clock(), self.step
        _seed_generators(self._config.seed, step)
        batch = self._loader.read(step)
        weights = [*self._optimizer.weights.values()]
        forward = self._model.forward(self._optimizer.weights, batch.tokens_BS, step)
        grads = torch.autograd.grad(forward.loss, weights)
        grad_P = torch.stack(torch._foreach_norm(grads))
        norms_due = (step + 1) % self._config.diagnostics.norms_every == 0
        weight_P = torch.stack(torch._foreach_norm([w.detach() for w in weights])) if norms_due else None
        scale = self._clip_scale(float(torch.linalg.vector_norm(grad_P)), step)
        multiplier = self._parts.learning_rate(step, self._config.schedule)
        update = self._optimizer.step(grads, scale, multiplier)
        norms = Norms(grad_P=grad_P, weight_P=weight_P, update=update)
        values = self._statistics.measure(step, forward, norms, batch.source_B)
        values["data_position"] = float(batch.next_position)
        values["repeated_samples"] = float(batch.repeated)
        for group in self._used_groups:
            values[f"lr/group.{group}"] = self._config.optim.group(group).lr * multiplier
            values[f"weight_decay/group.{group}"] = self._config.optim.group(group).weight_decay
        elapsed = self._clock() - started
        values["step_time_s"] = elapsed
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
            step=self.step, weights=weights, optimizer=self._optimizer.states(), loader=self._loader.state()
        )

    def _clip_scale(self, grad_norm: float, step: int) -> float:
        clip = self._config.clip
        if not clip.max_norm or step < clip.from_step or not grad_norm > clip.max_norm:
            return 1.0
        return clip.max_norm / grad_norm

    def _constant_settings(self) -> dict[str, Scalar]:
        mixture = {f"data.mixture.{name}": weight for name, weight in self._loader.mixture().items()}
        return {
            **self._optimizer.effective(),
            **mixture,
            "parallel.dp_size": self._config.parallel.dp_size,
            "data.batch_size": self._config.data.batch_size,
            "moe.balance.scope": self._config.moe.balance.scope,
        }

    def _effective(self, step: int) -> dict[str, Scalar]:
        moe = self._config.moe
        return self._constant | {
            "moe.balance.coef": moe.balance.coefficient(step),
            "moe.z_loss.coef": moe.z_loss.coefficient(step),
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


def _seed_generators(seed: int, step: int) -> None:
    """Every global generator restarts from (seed, step), so that a resumed step draws what the first one drew."""
    digest = hashlib.sha256(f"{seed} step {step}".encode()).digest()
    torch.default_generator.manual_seed(int.from_bytes(digest[:7], "big"))
    np.random.seed(int.from_bytes(digest[8:12], "big"))
    random.seed(digest)
