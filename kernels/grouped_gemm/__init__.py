"""Matrix products of experts on ragged groups of rows, and the fused expert MLP.

Shape letters: N tokens, K experts chosen by a token (in gates and permutations), T sorted rows, E experts, D model
width, F expert width (F2 = gate and up side by side); a plain product is [T, K] @ [E, K, N] -> [T, N].
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import torch
from torch import Tensor

from contracts.errors import UserInputError
from kernels.backend import FLOATS, Backend, Operation, require
from kernels.grouped_gemm import cpu, mlp, reference
from kernels.grouped_gemm.permutation import Permutation, sort_by_expert

__all__ = ["Permutation", "expert_mlp", "grouped_gemm", "sort_by_expert"]

_DTYPES = {Backend.CPU: FLOATS, Backend.TRITON: FLOATS}
_GEMM = Operation(
    name="grouped_gemm",
    reference=reference.grouped_gemm,
    cpu=cpu.grouped_gemm,
    triton="kernels.grouped_gemm.triton:grouped_gemm",
    dtypes=_DTYPES,
)
_MLP = Operation(
    name="expert_mlp",
    reference=reference.expert_mlp,
    cpu=mlp.expert_mlp,
    triton="kernels.grouped_gemm.triton_mlp:expert_mlp",
    dtypes=_DTYPES,
)


def grouped_gemm(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, *, backend: Backend | str | None = None) -> Tensor:
    """y[t] = x[t] @ w[e] for offsets[e-1] <= t < offsets[e]; differentiable in x and w.

    `offsets_E` (int32, ascending) are cumulative ends, as for torch's grouped_mm. Groups may be empty. Rows behind the
    last group are zero in y and in x's gradient, and weights of empty groups get zero gradients: nothing is ever left
    uninitialised. Sums run in float32 (float64 for float64). Raises UserInputError on shapes that do not fit.
    """
    _check_products(x_TK, w_EKN, offsets_E)
    return _GEMM.choose(x_TK, backend)(x_TK, w_EKN, offsets_E)


def expert_mlp(
    x_ND: Tensor,
    gates_NK: Tensor,
    w_gate_up_EDF2: Tensor,
    w_down_EFD: Tensor,
    permutation: Permutation,
    *,
    backend: Backend | str | None = None,
) -> Tensor:
    """y[n] = sum over k of gate[n, k] * SwiGLU expert e(n, k) of x[n]; differentiable in x, gates and both weights.

    The permutation comes from `sort_by_expert`; dropped pairs contribute nothing, whatever their gate. `w_gate_up`
    holds the gate's F columns, then the up projection's. Raises UserInputError on shapes that do not fit.
    """
    num_experts, width, hidden = w_gate_up_EDF2.shape
    require(
        w_down_EFD.shape == (num_experts, hidden // 2, width) and hidden % 2 == 0,
        f"expert_mlp: weights {tuple(w_gate_up_EDF2.shape)} and {tuple(w_down_EFD.shape)} do not fit",
        "pass [E, D, 2 F] and [E, F, D]",
    )
    require(
        gates_NK.shape == permutation.rows.shape and x_ND.shape == (gates_NK.shape[0], width),
        f"expert_mlp: x {tuple(x_ND.shape)}, gates {tuple(gates_NK.shape)}, rows {tuple(permutation.rows.shape)}",
        "pass x [N, D], gates [N, K] and the permutation of the same [N, K] choice of experts",
    )
    same = x_ND.dtype == w_gate_up_EDF2.dtype == w_down_EFD.dtype
    require(same, "expert_mlp: x and the weights differ in dtype", "convert them to one dtype (gates may be float32)")
    require(permutation.offsets.shape == (num_experts,), "expert_mlp: wrong number of groups", "sort for E experts")
    return _MLP.choose(x_ND, backend)(x_ND, gates_NK, w_gate_up_EDF2, w_down_EFD, permutation)


def _check_products(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> None:
    """Cheap where nothing is wrong: a product of small groups takes little longer than a few messages take to build."""
    if x_TK.dim() != 2 or w_EKN.dim() != 3 or x_TK.shape[1] != w_EKN.shape[1]:
        message = f"grouped_gemm: x {tuple(x_TK.shape)} and w {tuple(w_EKN.shape)} do not fit"
        raise UserInputError(message, remedy="pass x [T, K] and w [E, K, N]")
    num_groups = w_EKN.shape[0]
    if x_TK.dtype != w_EKN.dtype:
        raise UserInputError("grouped_gemm: x and w differ in dtype", remedy="convert both to one dtype")
    if offsets_E.shape != (num_groups,) or offsets_E.dtype != torch.int32 or not num_groups:
        message = f"grouped_gemm: offsets {tuple(offsets_E.shape)} {offsets_E.dtype} for {num_groups} groups"
        raise UserInputError(message, remedy="pass one int32 cumulative end a group")
    if offsets_E.device.type == "cpu" and not _ascending(tuple(offsets_E.tolist()), x_TK.shape[0]):
        raise UserInputError("grouped_gemm: offsets are not ascending ends", remedy="sort rows")


@lru_cache(maxsize=64)
def _ascending(ends: tuple[int, ...], num_rows: int) -> bool:
    return all(a <= b for a, b in itertools.pairwise((0, *ends, num_rows)))
