# mypy: disable-error-code="no-untyped-call"
"""The expert MLP in Triton: the gather is in the products' loads, SwiGLU in the first one's epilogue, and the second
writes every pair's result to its token's place, so that the sum over a token's experts has a fixed order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kernels.grouped_gemm.permutation import Permutation
from kernels.grouped_gemm.triton import RowMaps, row_products, weight_products


def expert_mlp(
    x_ND: Tensor, gates_NK: Tensor, w_gate_up_EDF2: Tensor, w_down_EFD: Tensor, permutation: Permutation
) -> Tensor:
    """The Triton path of `kernels.grouped_gemm.expert_mlp`."""
    y_ND: Tensor = _ExpertMlp.apply(x_ND, gates_NK, w_gate_up_EDF2, w_down_EFD, permutation)
    return y_ND


class _ExpertMlp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_ND: Tensor, gates_NK: Tensor, w_gate_up_EDF2: Tensor, w_down_EFD: Tensor, permutation: Permutation
    ) -> Tensor:
        x_ND, total = x_ND.contiguous(), len(permutation.pairs)
        gate_up_TF2 = x_ND.new_empty(total, w_gate_up_EDF2.shape[2])
        gather = RowMaps(gather=permutation.tokens)
        h_TF = row_products(x_ND, w_gate_up_EDF2, permutation.offsets, total, gather, aux_TN2=gate_up_TF2)
        gate_T = gates_NK.reshape(-1)[permutation.pairs]
        spread = RowMaps(scatter=permutation.pairs, scale=gate_T)
        out_ND = row_products(h_TF, w_down_EFD, permutation.offsets, total, spread)
        ctx.permutation = permutation
        ctx.save_for_backward(x_ND, gate_up_TF2, h_TF, gates_NK, w_gate_up_EDF2, w_down_EFD)
        return _sum_pairs(out_ND, gates_NK.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, gate_up_TF2, h_TF, gates_NK, w_gate_up_EDF2, w_down_EFD = ctx.saved_tensors
        permutation: Permutation = ctx.permutation
        dy_ND, offsets_E, total = grads[0].contiguous(), permutation.offsets, len(permutation.pairs)
        gather = RowMaps(gather=permutation.tokens)
        dh_TF = row_products(dy_ND, w_down_EFD.mT, offsets_E, total, gather)
        dgates_T = (dh_TF * h_TF).sum(dim=1, dtype=torch.float32)
        gate_T1 = gates_NK.reshape(-1)[permutation.pairs].to(h_TF.dtype).unsqueeze(1)
        dw_down_EFD = weight_products(h_TF * gate_T1, dy_ND, offsets_E, gather_dy=permutation.tokens)
        gate_TF, up_TF = gate_up_TF2.chunk(2, dim=1)
        dh_TF = dh_TF * gate_T1
        dgate_TF = torch.ops.aten.silu_backward(dh_TF * up_TF, gate_TF)
        dgate_up_TF2 = torch.cat([dgate_TF, dh_TF * functional.silu(gate_TF)], dim=1)
        spread = RowMaps(scatter=permutation.pairs)
        dx_ND = row_products(dgate_up_TF2, w_gate_up_EDF2.mT, offsets_E, total, spread)
        dw_gate_up_EDF2 = weight_products(x_ND, dgate_up_TF2, offsets_E, gather_x=permutation.tokens)
        dgates_NK = dgates_T[permutation.rows].to(gates_NK.dtype)
        return _sum_pairs(dx_ND, gates_NK.shape), dgates_NK, dw_gate_up_EDF2, dw_down_EFD, None


def _sum_pairs(pairs_PD: Tensor, shape: torch.Size) -> Tensor:
    """[N * K, D] summed over K in float32."""
    return pairs_PD.view(*shape, pairs_PD.shape[1]).sum(dim=1, dtype=torch.float32).to(pairs_PD.dtype)
