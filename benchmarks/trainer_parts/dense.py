"""A mixture-of-experts step against a dense model of equal active FLOPs made of the same parts.

The dense model has one SwiGLU of width top_k * d_expert in each layer. Its step reads no data and writes no statistics,
which favours it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.trainer_parts.shapes import Shape
from benchmarks.trainer_parts.steps import batches_of, training_of
from kernels.cross_entropy import cross_entropy
from kernels.measure import interleave, speedup
from trainer.attention import tables_of
from trainer.block import block
from trainer.config import TrainConfig
from trainer.groups import assign_groups
from trainer.norm import rms_norm
from trainer.optim import Optimizer
from trainer.parts import parameter_group
from trainer.precision import DTYPES, computed
from trainer.weights import initial_weights


class DenseSteps:
    """A training of the dense model on given batches: loss, gradients, clipping, update."""

    def __init__(self, config: TrainConfig, batches: list[Tensor]) -> None:
        self._config, self._batches, self._step = config, batches, 0
        values = initial_weights(config)
        groups = assign_groups({n: tuple(v.shape) for n, v in values.items()}, parameter_group, config.optim)
        self._optimizer = Optimizer(values, groups, config.optim, config.muon, {}, config.model.head_dim)
        self._tables = tables_of(config.model, config.data.seq_len, config.numerics.compute)
        self._dtype = DTYPES[config.numerics.compute]

    def advance(self) -> float:
        weights = self._optimizer.weights
        loss = self._loss(self._batches[self._step % len(self._batches)])
        self._step += 1
        grads = torch.autograd.grad(loss, [*weights.values()])
        norm = float(torch.nn.utils.get_total_norm(grads))
        self._optimizer.step(grads, min(1.0, 1.0 / norm), 1.0, measure=False)
        return float(loss.detach())

    def _loss(self, tokens_BS: Tensor) -> Tensor:
        config, weights = self._config, computed(self._optimizer.weights, self._dtype)
        raw = self._optimizer.weights["embedding.weight"]
        x_BSD = torch.nn.functional.embedding(tokens_BS[:, :-1], raw).to(self._dtype)
        for layer in range(config.model.num_layers):
            x_BSD, _ = block(x_BSD, weights, f"layers.{layer}.", config, self._tables, None)
        normal_BSD = rms_norm(x_BSD, weights["final_norm.weight"], config.model.norm_eps)
        return cross_entropy(normal_BSD.flatten(0, 1), weights["head.weight"], tokens_BS[:, 1:].reshape(-1)).total


def dense_config(shape: Shape, compute: str) -> TrainConfig:
    """All layers dense, which a training of its own would refuse."""
    config = shape.config(compute)
    sizes = {"num_dense_layers": shape.num_layers, "d_dense": shape.top_k * shape.d_expert}
    return config.model_copy(update={"moe": config.moe.model_copy(update=sizes)})


def measure(shape: Shape, compute: str, *, rounds: int) -> float:
    """Seconds of the dense step / ours: tokens per second of the mixture by those of the dense model."""
    config = shape.config(compute)
    dense = DenseSteps(dense_config(shape, compute), batches_of(config, 4))
    times = interleave({"moe": training_of(config).advance, "dense": dense.advance}, rounds=rounds)
    return speedup(times, "moe", "dense")
