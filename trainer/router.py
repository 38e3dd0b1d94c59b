"""Top-k routing in float32, its auxiliary losses, and the violation measure.

Shape letters: L layers, T tokens (ordered sequence, rank, position), R virtual data-parallel ranks, N tokens of
one rank, I its sequences, S positions, C context-parallel ranks, E experts, K experts a token goes to, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import MoeConfig


@dataclass(frozen=True, kw_only=True)
class Routing:
    """One layer's decisions for one batch."""

    logits_ET: Tensor
    probs_ET: Tensor  # normalised scores, sum to 1 over the experts
    weight_KT: Tensor
    choice_KT: Tensor
    chosen_ET: Tensor  # 1.0 where the token goes to the expert, else 0.0


def route(x_TD: Tensor, weights: Mapping[str, Tensor], prefix: str, config: MoeConfig) -> Routing:
    """Choose `top_k` experts for each token.

    `weights` holds `<prefix>weight` and, if configured, `<prefix>bias`, which enters the scores, and
    `<prefix>choice_bias`, which only moves the choice (Wang et al., arXiv 2408.15664 eq. 3).
    """
    if config.router_jitter:
        x_TD = x_TD * torch.empty_like(x_TD).uniform_(1.0 - config.router_jitter, 1.0 + config.router_jitter)
    logits_ET = weights[f"{prefix}weight"] @ x_TD.t()
    if config.router_bias:
        logits_ET = logits_ET + weights[f"{prefix}bias"].unsqueeze(1)
    scaled_ET = logits_ET / config.router_temperature
    if config.gate == "softmax":
        scores_ET = probs_ET = scaled_ET.softmax(dim=0)
    else:
        scores_ET = scaled_ET.sigmoid()
        probs_ET = scores_ET / scores_ET.sum(dim=0)
    if config.choice_bias:
        biased_ET = scores_ET.detach() + weights[f"{prefix}choice_bias"].unsqueeze(1)
        choice_KT = biased_ET.topk(config.top_k, dim=0).indices
        weight_KT = scores_ET.gather(0, choice_KT)
    else:
        weight_KT, choice_KT = scores_ET.topk(config.top_k, dim=0)
    if config.renormalise:
        weight_KT = weight_KT / weight_KT.sum(dim=0)
    return Routing(
        logits_ET=logits_ET,
        probs_ET=probs_ET,
        weight_KT=weight_KT * config.routed_scale,
        choice_KT=choice_KT,
        chosen_ET=torch.zeros_like(probs_ET).scatter_(0, choice_KT, 1.0),
    )


def by_rank(x_LET: Tensor, dp_size: int, seq_len: int, cp_size: int = 1) -> Tensor:
    """[L, R * C, N, E]: sequence i of the batch belongs to rank i % R.

    Of the 2 * C equal chunks of a sequence, context-parallel rank c owns c and 2 * C - 1 - c (zig-zag).
    """
    num_layers, num_experts, _ = x_LET.shape
    if cp_size == 1:
        x_LEIRS = x_LET.view(num_layers, num_experts, -1, dp_size, seq_len)
        return x_LEIRS.permute(0, 3, 2, 4, 1).flatten(2, 3)
    chunks = x_LET.view(num_layers, num_experts, -1, dp_size, 2 * cp_size, seq_len // (2 * cp_size))
    pairs = torch.stack([chunks[..., :cp_size, :], chunks[..., cp_size:, :].flip(4)], dim=5)
    return pairs.permute(0, 3, 4, 2, 5, 6, 1).flatten(3, 5).flatten(1, 2)


def expert_load(chosen_LET: Tensor, top_k: int, dp_size: int, seq_len: int, cp_size: int = 1) -> Tensor:
    """[L, R * C, E] fraction of each rank's assignments that went to each expert; sums to 1 over the experts."""
    tokens_per_rank = chosen_LET.shape[2] // (dp_size * cp_size)
    return by_rank(chosen_LET, dp_size, seq_len, cp_size).sum(dim=2) / (tokens_per_rank * top_k)


def z_loss(logits_LET: Tensor, weight_LT: Tensor | None = None) -> Tensor:
    """[L] mean over tokens of logsumexp(logits)^2 (ST-MoE, arXiv 2202.08906 eq. 5), each token times its weight."""
    square_LT = logits_LET.logsumexp(dim=1).square()
    return (square_LT if weight_LT is None else square_LT * weight_LT).mean(dim=1)


def max_violation(load_E: Tensor) -> Tensor:
    """MaxVio over the last dimension: (max load - mean load) / mean load (Wang et al., arXiv 2408.15664 eq. 4)."""
    mean = load_E.mean(dim=-1)
    return (load_E.amax(dim=-1) - mean) / mean
