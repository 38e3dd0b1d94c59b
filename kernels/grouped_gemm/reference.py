"""Grouped GEMM and the expert MLP, one expert after another. Shape letters: see the package."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.grouped_gemm.permutation import Permutation


def accumulation_dtype(tensor: Tensor) -> torch.dtype:
    """Products are summed in float64 for float64 inputs and in float32 otherwise."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def grouped_gemm(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """y[t] = x[t] @ w[e] for t in [offsets[e-1], offsets[e]); rows behind the last group are zero."""
    wide = accumulation_dtype(x_TK)
    ends = [0, *offsets_E.tolist()]
    parts = [x_TK[a:b].to(wide) @ w_KN.to(wide) for a, b, w_KN in zip(ends[:-1], ends[1:], w_EKN, strict=True)]
    parts.append(x_TK.new_zeros(x_TK.shape[0] - ends[-1], w_EKN.shape[2], dtype=wide))
    return torch.cat(parts).to(x_TK.dtype)


def expert_mlp(
    x_ND: Tensor, gates_NK: Tensor, w_gate_up_EDF2: Tensor, w_down_EFD: Tensor, permutation: Permutation
) -> Tensor:
    """y[n] = sum over k of gate[n, k] * (silu(x[n] @ gate_e) * (x[n] @ up_e)) @ down_e, e = k-th expert of n.

    The formula is SwiGLU (Shazeer 2020, arXiv 2002.05202); intermediate results stay in the accumulation type.
    """
    wide = accumulation_dtype(x_ND)
    sorted_TD = x_ND[permutation.tokens].to(wide)
    gate_up_TF2 = grouped_gemm(sorted_TD, w_gate_up_EDF2.to(wide), permutation.offsets)
    gate_TF, up_TF = gate_up_TF2.chunk(2, dim=-1)
    out_TD = grouped_gemm(functional.silu(gate_TF) * up_TF, w_down_EFD.to(wide), permutation.offsets)
    out_NKD = out_TD[permutation.rows]
    dropped_NK1 = (permutation.rows >= permutation.offsets[-1]).unsqueeze(-1)
    weighted_NKD = torch.where(dropped_NK1, 0.0, out_NKD * gates_NK.to(wide).unsqueeze(-1))
    return weighted_NKD.sum(dim=1).to(x_ND.dtype)
