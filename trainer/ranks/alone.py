"""The seam between a training and the processes that compute it together, as one process alone fills it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainer.attention import Attending, tables_of
from trainer.block import local_experts
from trainer.config import TrainConfig
from trainer.router import Routing
from trainer.targets import Sequences, Share

if TYPE_CHECKING:
    from trainer.model import Forward
    from trainer.training import TrainingState


class Ranks:
    """One process that holds every weight and simulates all ranks. Subclasses are several, with equal results.

    What a process holds of a tensor is its `cut`. Methods that speak of all processes are called by all of them.
    """

    count = 1

    def begin(self, config: TrainConfig, clock: Callable[[], float]) -> None:
        """A training with this config follows; its parallel sizes are those of the ranks. `clock` gives seconds."""

    def hosts(self) -> tuple[str, ...]:
        """The machine of each place; nothing to tell apart in one process."""
        return ()

    def computing_s(self) -> tuple[float, ...]:
        """Seconds that each rank computed in the forward passes since the last call; empty where that is not known."""
        return ()

    def self_check(self) -> tuple[float, ...]:
        """How far each rank's result of the fixed computation departs; empty in one process, which has no peers."""
        return ()

    def announce(self, order: str) -> None:
        """The first process says which method of its training the others are to call too."""

    def shared(self, state: TrainingState | None) -> TrainingState | None:
        """The state that the first process has."""
        return state

    def local_config(self, config: TrainConfig) -> TrainConfig:
        """As this process computes its part."""
        return config

    def tables(self, config: TrainConfig) -> Attending:
        return tables_of(config.model, config.data.seq_len, config.numerics.compute)

    def share(self, sequences: Sequences, config: TrainConfig) -> Share:
        """What a part must know of the step whose sequences these are."""
        return Share.of(sequences, config.parallel.accumulation * self.count, config.mtp.num_modules)

    def mine(self, sequences: Sequences) -> Sequences:
        """The part of a step that this process computes."""
        return sequences

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over the processes."""
        return tensor

    def joined(self, forward: Forward) -> Forward:
        """The forward of the whole step from those of all processes."""
        return forward

    def hold(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take over these weights; returns the cut of each."""
        return dict(weights)

    def publish(self, weights: Mapping[str, Tensor]) -> None:
        """The cuts of the weights have changed."""

    def cut(self, name: str, whole: Tensor) -> Tensor:
        """What this process holds of a parameter, or of a tensor of its shape."""
        return whole

    def whole_shape(self, name: str, cut: Tensor) -> tuple[int, ...]:
        return tuple(cut.shape)

    def whole(self, cuts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The parameters, or tensors of their shapes, of which all processes give their cuts."""
        return dict(cuts)

    def norms(self, norm_P: Tensor) -> Tensor:
        """Norms of whole tensors from those of the cuts; each element counts once."""
        return norm_P

    def run(self, unit: str, function: Callable[..., Any], weights: Mapping[str, Tensor], *tensors: Any) -> Any:
        """`function(weights, *tensors)` where `weights` has those whose names begin with `unit`."""
        return function(weights, *tensors)

    def experts(
        self, x_TD: Tensor, routing: Routing, weights: Mapping[str, Tensor], prefix: str, config: TrainConfig
    ) -> Tensor:
        """[T, D] what the routed experts of a block add."""
        return local_experts(x_TD, routing, weights, prefix, config)

    def gradients(
        self, loss: Tensor, names: Sequence[str], weights: Mapping[str, Tensor], *, is_frozen: bool
    ) -> tuple[Tensor, ...]:
        """Cuts of the gradients of the mean of the processes' losses.

        With `is_frozen` a weight that the loss does not depend on has a gradient of zeros.
        """
        leaves = [weights[name] for name in names]
        return torch.autograd.grad(loss, leaves, allow_unused=is_frozen, materialize_grads=is_frozen)
