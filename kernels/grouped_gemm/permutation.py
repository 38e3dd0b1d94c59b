"""Tokens sorted by expert, and back.

Shape letters: N tokens, K experts chosen by a token, T = N * K sorted rows, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.backend import require


@dataclass(frozen=True, kw_only=True, eq=False)
class Permutation:
    """Where every (token, choice) pair lies once pairs are sorted by expert, stably.

    pairs    [T] int64: pair index n * K + k of each sorted row
    tokens   [T] int64: token of each sorted row
    rows     [N, K] int64: sorted row of each pair
    offsets  [E] int32: one past the last sorted row of each expert; rows from offsets[-1] on belong to no expert
    """

    pairs: Tensor
    tokens: Tensor
    rows: Tensor
    offsets: Tensor


def sort_by_expert(experts_NK: Tensor, num_experts: int) -> Permutation:
    """Sort pairs by expert. A pair whose expert is -1 is dropped: its row lies behind all experts.

    Raises UserInputError on an expert outside [-1, num_experts) (checked on CPU tensors only: no GPU sync).
    """
    num_tokens, num_choices = experts_NK.shape
    flat_T = experts_NK.reshape(-1).to(torch.int64)
    if flat_T.device.type == "cpu" and flat_T.numel():
        inside = bool((flat_T.min() >= -1) & (flat_T.max() < num_experts))
        require(inside, "sort_by_expert: an expert index is out of range", f"use -1 (dropped) to {num_experts - 1}")
    key_T = torch.where(flat_T < 0, num_experts, flat_T)
    sorted_T, pairs_T = torch.sort(key_T, stable=True)
    experts_E = torch.arange(num_experts, device=flat_T.device)
    offsets_E = torch.searchsorted(sorted_T, experts_E, right=True).to(torch.int32)
    rows_T = torch.empty_like(pairs_T)
    rows_T[pairs_T] = torch.arange(len(pairs_T), device=pairs_T.device)
    return Permutation(
        pairs=pairs_T,
        tokens=pairs_T // max(num_choices, 1),
        rows=rows_T.view(num_tokens, num_choices),
        offsets=offsets_E,
    )
