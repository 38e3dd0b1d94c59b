"""The load-balance penalty of one mixture-of-experts layer.

Shapes: R data-parallel ranks, N tokens of a rank, E experts.
"""

from __future__ import annotations

from torch import Tensor

from trainer import BalanceConfig


def shared_load(load_RE: Tensor) -> Tensor:
    """The load over the whole global batch, seen by every rank."""
    total_E = load_RE.mean(dim=0)
    return total_E.expand_as(load_RE)


def balance_loss(layer: int, probs_RNE: Tensor, load_RE: Tensor, config: BalanceConfig) -> Tensor:
    """How unevenly one layer uses its experts; 1.0 when every expert gets the same share.

    The trainer multiplies the value by the coefficient of the recipe.
    """
    num_experts = probs_RNE.shape[-1]
    if config.scope == "global":
        load_RE = shared_load(load_RE)

    probs_RE = probs_RNE.mean(dim=1)

    penalty_R = num_experts * (load_RE * probs_RE).sum(dim=-1)

    return penalty_R.mean()
