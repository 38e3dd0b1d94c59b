"""The pieces of the trainer that a team would edit, as plain functions, with the trainer's own defaults.

A project replaces any of them: `Parts(balance_loss=my_balance_loss)`. Shape letters: R virtual data-parallel
ranks, N tokens of one rank, E experts, B sequences of one rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from trainer.config import BalanceConfig, ScheduleConfig

if TYPE_CHECKING:
    from torch import Tensor

Positions = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class BatchLayout:
    """How the samples of one optimizer step are spread over the ranks."""

    batch_size: int  # sequences of one step, over all ranks
    dp_size: int


class BalanceLoss(Protocol):
    def __call__(self, layer: int, probs_RNE: Tensor, load_RE: Tensor, config: BalanceConfig) -> Tensor: ...


class RankPositions(Protocol):
    def __call__(self, step: int, rank: int, config: BatchLayout) -> Positions: ...


def balance_loss(layer: int, probs_RNE: Tensor, load_RE: Tensor, config: BalanceConfig) -> Tensor:
    """Load-balancing loss of one layer, a scalar; 1.0 when the load is even. Not multiplied by the coefficient.

    `probs_RNE` are the router's normalised scores, `load_RE` the fraction of routed assignments each expert got
    (sums to 1 per rank, carries no gradient). E * sum_e load_e * mean_n probs_e (Switch, arXiv 2101.03961 eq. 4);
    with scope "global" the load is that of the whole step (Qiu et al., arXiv 2501.11873), however it is split.
    At least 1 where load and scores order the experts alike. Of packed rows the scores of padding are 0, and the
    others are scaled so that means over N and R are means over the tokens that count.
    """
    if config.scope == "global":
        load_RE = load_RE.mean(dim=0, keepdim=True)
    num_experts = probs_RNE.shape[-1]
    return num_experts * (load_RE * probs_RNE.mean(dim=1)).sum(dim=-1).mean()


def parameter_group(name: str, ndim: int) -> str:
    """The optimizer group of a parameter: embedding, head, norm, bias, router, attention or experts."""
    if name.endswith(".bias"):
        return "bias"
    if "norm" in name:
        return "norm"
    for group in ("embedding", "head", "router", "experts"):
        if group in name:
            return group
    return "experts" if ".dense." in name else "attention"


def rank_positions(step: int, rank: int, config: BatchLayout) -> Positions:
    """Positions [B] in the global order that `rank` reads at the 0-based `step`.

    Ranks take turns, so the union over the ranks does not depend on their number.
    """
    first = step * config.batch_size + rank
    return np.arange(first, (step + 1) * config.batch_size, config.dp_size, dtype=np.int64)


def learning_rate(step: int, schedule: ScheduleConfig) -> float:
    """Multiplier in [0, 1] of each group's learning rate at the 0-based `step`."""
    step = max(0, step - schedule.from_step)
    warmup = min(1.0, (step + 1) / (schedule.warmup_steps + 1))
    if schedule.kind == "constant":
        return warmup
    progress = min(1.0, max(0.0, (step - schedule.decay_start) / schedule.decay_steps))
    if schedule.kind == "cosine":
        progress = 0.5 - 0.5 * math.cos(math.pi * progress)
    return warmup * (1.0 - progress * (1.0 - schedule.min_ratio))


def log_line(step: int, values: Mapping[str, float]) -> str:
    """Console text of one step; nothing else depends on it."""
    return (
        f"step {step:5d}  loss {values['lm_loss']:.4f}  max_vio {values.get('max_vio', math.nan):.3f}  "
        f"{values['tokens_per_second']:.0f} tokens/s"
    )


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The functions a training is put together from."""

    balance_loss: BalanceLoss = balance_loss
    parameter_group: Callable[[str, int], str] = parameter_group
    rank_positions: RankPositions = rank_positions
    learning_rate: Callable[[int, ScheduleConfig], float] = learning_rate
    log_line: Callable[[int, Mapping[str, float]], str] = log_line
