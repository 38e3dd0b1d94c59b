"""What a router computes, and what comes out. Shape letters: N tokens, E experts, K experts chosen by a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

SUM_FLOOR = 1e-20
"""Added to the sum of chosen scores before dividing by it (as DeepSeek-V3's code does)."""


@dataclass(frozen=True, kw_only=True)
class RouterSettings:
    """top_k        experts a token goes to
    score        softmax over experts, or a sigmoid for each
    renormalise  gates of a token sum to `scale`; otherwise they are scale * score
    """

    top_k: int
    score: Literal["softmax", "sigmoid"] = "softmax"
    renormalise: bool = True
    scale: float = 1.0


class Routing(NamedTuple):
    """experts      [N, K] int64, best first, ties to the lowest index; -1 for padding
    gates        [N, K] float32 from raw (not bias-adjusted) scores, 0 for padding; differentiable
    loads        [E] int64, chosen pairs of each expert
    mean_scores  [E] float32, mean over tokens of scores that sum to one; differentiable
    z_loss       [] float32, mean over tokens of logsumexp(logits) ** 2 (ST-MoE, arXiv 2202.08906); differentiable
    """

    experts: Tensor
    gates: Tensor
    loads: Tensor
    mean_scores: Tensor
    z_loss: Tensor
