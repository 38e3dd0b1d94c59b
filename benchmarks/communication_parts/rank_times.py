"""Sequences of very unequal lengths on the ranks of one step: what each way of sharing them costs (RC2-7.8).

A rank's work is forward and backward of one block over its sequences, packed end to end. Predicted is
a * tokens + b * sum(length^2), with a and b fitted on this machine; measured is CPU time, one rank after another.
"""

from __future__ import annotations

import heapq
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels.measure import interleave
from trainer.attention import LongRows
from trainer.block import block
from trainer.config import TrainConfig
from trainer.weights import initial_weights

_PREFIX = "layers.0."
Ranks = Sequence[Sequence[int]]  # the lengths on each rank


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of a sequence: per token, and per pair of its tokens."""

    token_s: float
    pair_s: float

    def of(self, lengths: Sequence[int]) -> float:
        return sum(self.token_s * length + self.pair_s * length**2 for length in lengths)


def real_lengths(longest: int, count: int) -> list[int]:
    """Tokens (four bytes each) of this Python's own library files in the order of their paths: a heavy tail."""
    root = Path(sysconfig.get_paths()["stdlib"])
    sizes = [path.stat().st_size // 4 for path in sorted(root.glob("*/*.py")) if "-packages" not in str(path)]
    return [min(longest, size) for size in sizes if size >= 16][:count]


def round_robin(lengths: Sequence[int], num_ranks: int) -> Ranks:
    return [lengths[rank::num_ranks] for rank in range(num_ranks)]


def packed_by(lengths: Sequence[int], num_ranks: int, weights: Sequence[float]) -> Ranks:
    """In falling order of weight, each to the rank with the least so far."""
    ranks: list[list[int]] = [[] for _ in range(num_ranks)]
    loads = [(0.0, rank) for rank in range(num_ranks)]
    for index in sorted(range(len(lengths)), key=lambda i: -weights[i]):
        load, rank = heapq.heappop(loads)
        ranks[rank].append(lengths[index])
        heapq.heappush(loads, (load + weights[index], rank))
    return ranks


class Work:
    """Forward and backward of one block over sequences that do not see each other."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._config = TrainConfig().with_overrides({"model.rope_base": 1e6, "model.d_model": 128})
        weights = initial_weights(self._config)
        self._weights = {name: weights[name].requires_grad_() for name in weights if name.startswith(_PREFIX)}
        num_tokens = sum(lengths)
        self._tables = LongRows.build(self._config.model, num_tokens)
        document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        self._sight = self._tables.sight(document.unsqueeze(0))
        self._x = torch.randn(1, num_tokens, self._config.model.d_model)

    def __call__(self) -> None:
        out, _ = block(self._x, self._weights, _PREFIX, self._config, self._tables, self._sight)
        torch.autograd.grad(out.sum(), [*self._weights.values()], allow_unused=True)


def fitted(longest: int, rounds: int) -> Cost:
    """Least squares over rows of equal size that are one sequence or many."""
    rows = [[longest // parts] * parts for parts in (1, 2, 4, 16)] + [[longest // 2], [longest // 8] * 2]
    times = interleave({str(number): Work(row) for number, row in enumerate(rows)}, rounds=rounds)
    seconds = np.array([min(times[str(number)]) for number in range(len(rows))])
    terms = np.array([[sum(row), sum(length**2 for length in row)] for row in rows], dtype=float)
    token_s, pair_s = np.linalg.lstsq(terms / seconds[:, None], np.ones(len(rows)), rcond=None)[0]
    return Cost(token_s=max(float(token_s), 0.0), pair_s=max(float(pair_s), 0.0))


def shared_out(lengths: Sequence[int], num_ranks: int, cost: Cost) -> Mapping[str, Ranks]:
    return {
        "round robin": round_robin(lengths, num_ranks),
        "by tokens": packed_by(lengths, num_ranks, [float(length) for length in lengths]),
        "by attention too": packed_by(lengths, num_ranks, [cost.of([length]) for length in lengths]),
    }


def measure(lengths: Sequence[int], *, num_ranks: int, longest: int, rounds: int) -> dict[str, Any]:
    """max / mean over the ranks, predicted and measured, of each way."""
    cost = fitted(longest, rounds)
    figures: dict[str, Any] = {"sequences": len(lengths), "longest": max(lengths), "ranks": num_ranks}
    for name, ranks in shared_out(lengths, num_ranks, cost).items():
        times = interleave({str(rank): Work(mine) for rank, mine in enumerate(ranks)}, rounds=rounds, warmup=1)
        measured = [min(times[str(rank)]) for rank in range(num_ranks)]
        predicted = [cost.of(mine) for mine in ranks]
        figures[name] = {
            "predicted_max_over_mean": max(predicted) / (sum(predicted) / num_ranks),
            "measured_max_over_mean": max(measured) / (sum(measured) / num_ranks),
        }
    return figures
