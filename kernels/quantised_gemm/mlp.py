"""The expert MLP with quantised products: which of the four flows rounds what.

dispatch  tokens on their way to the gate-up product; hidden rows stay with their expert, in bf16
forward   both operands of both products
backward  both operands of every dgrad and wgrad
combine   results of the down product on their way back; the sum over a token's experts is float32
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor
from torch.nn import functional

from kernels.backend import Backend
from kernels.grouped_gemm import Permutation
from kernels.quantised_gemm.products import quantised_product
from kernels.quantised_gemm.settings import Precision


def quantised_expert_mlp(
    x_ND: Tensor,
    gates_NK: Tensor,
    w_gate_up_EDF2: Tensor,
    w_down_EFD: Tensor,
    permutation: Permutation,
    precision: Precision,
    backend: Backend | None,
) -> Tensor:
    """See `kernels.quantised_gemm.quantised_expert_mlp`."""
    offsets_E = permutation.offsets
    sorted_TD = x_ND.index_select(0, permutation.tokens)
    gate_up_TF2 = quantised_product(sorted_TD, w_gate_up_EDF2, offsets_E, replace(precision, combine="bf16"), backend)
    gate_TF, up_TF = gate_up_TF2.chunk(2, dim=1)
    hidden_TF = functional.silu(gate_TF) * up_TF
    out_TD = quantised_product(hidden_TF, w_down_EFD, offsets_E, replace(precision, dispatch="bf16"), backend)
    dropped_NK = permutation.rows >= offsets_E[-1]
    out_NKD = out_TD.index_select(0, permutation.rows.reshape(-1)).view(*gates_NK.shape, x_ND.shape[1])
    weights_NK1 = gates_NK.float().masked_fill(dropped_NK, 0.0).unsqueeze(2)
    return (out_NKD.float() * weights_NK1).sum(dim=1).to(x_ND.dtype)
