"""Routed experts by the kernels package: its fused expert MLP, or the same with products in emulated number formats.

Shape letters: T tokens, K experts a token goes to, D model width, E experts, F expert width, G = 2 * F.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.grouped_gemm import expert_mlp, sort_by_expert
from kernels.quantised_gemm import Precision, quantised_expert_mlp
from trainer.config import ExpertNumerics


def kernel_experts(
    x_TD: Tensor,
    weight_KT: Tensor,
    choice_KT: Tensor,
    matrices: tuple[Tensor, Tensor, Tensor],
    numerics: ExpertNumerics,
) -> Tensor:
    """As `trainer.experts.routed_experts`; `matrices` are gate, up and down, each [E, F, D] (down transposed)."""
    gate_EFD, up_EFD, down_EFD = matrices
    permutation = sort_by_expert(choice_KT.t(), len(gate_EFD))
    gate_up_EDG = torch.cat([gate_EFD, up_EFD], dim=1).mT
    if numerics.products == "kernels":
        return expert_mlp(x_TD, weight_KT.t(), gate_up_EDG, down_EFD, permutation)
    precision = Precision(
        dispatch=numerics.dispatch, forward=numerics.forward, backward=numerics.backward, combine=numerics.combine
    )
    return quantised_expert_mlp(x_TD, weight_KT.t(), gate_up_EDG, down_EFD, permutation, precision=precision)
