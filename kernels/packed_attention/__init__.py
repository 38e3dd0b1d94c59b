"""Causal attention inside each document of a packed row, forward and backward.

Shape letters: T tokens of all documents end to end, D documents, H query heads, G key heads (H a multiple of G), d
size of a query or key head, e of a value head (192 and 128 for DeepSeek shapes), s tokens of one document.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from kernels.backend import FLOATS, Backend, Operation, require
from kernels.packed_attention import cpu, reference

__all__ = ["packed_attention"]

_OPERATION = Operation(
    name="packed_attention",
    reference=reference.packed_attention,
    cpu=cpu.packed_attention,
    triton="kernels.packed_attention.triton:packed_attention",
    dtypes={Backend.CPU: (*FLOATS, torch.float64), Backend.TRITON: FLOATS},
)


def packed_attention(
    q_THd: Tensor,
    k_TGd: Tensor,
    v_TGe: Tensor,
    ends_D: Tensor,
    *,
    scale: float | None = None,
    backend: Backend | str | None = None,
) -> Tensor:
    """softmax(scale * q k) v over the tokens of the same document that are not later; [T, H, e].

    `ends_D` (int32, ascending) are cumulative ends of documents; empty ones are allowed. Nothing crosses a document:
    not a value, a gradient, nor a NaN. (Inside one, a NaN value may reach earlier tokens: 0 * NaN is NaN.) Rows behind
    the last document give zeros. Query head h uses key head h // (H / G). The default scale is d ** -0.5.
    Raises UserInputError on shapes that do not fit.
    """
    shapes = f"{tuple(q_THd.shape)}, {tuple(k_TGd.shape)}, {tuple(v_TGe.shape)}"
    matrices = q_THd.dim() == k_TGd.dim() == v_TGe.dim() == 3
    require(
        matrices and k_TGd.shape[:2] == v_TGe.shape[:2] and q_THd.shape[::2] == k_TGd.shape[::2],
        f"packed_attention: q, k, v of shapes {shapes} do not fit",
        "pass [T, H, d], [T, G, d], [T, G, e]",
    )
    heads, groups = q_THd.shape[1], k_TGd.shape[1]
    require(groups > 0 and heads % groups == 0, f"packed_attention: {heads} heads on {groups}", "use a multiple")
    require(q_THd.dtype == k_TGd.dtype == v_TGe.dtype, "packed_attention: dtypes differ", "convert to one dtype")
    require(ends_D.dim() == 1 and ends_D.dtype == torch.int32, "packed_attention: ends are not int32 [D]", "convert")
    if ends_D.device.type == "cpu":
        ends = [0, *ends_D.tolist()]
        ascending = all(a <= b for a, b in itertools.pairwise(ends)) and ends[-1] <= len(q_THd)
        require(ascending, "packed_attention: ends are not ascending row numbers", "pass cumulative ends up to T")
    scale = q_THd.shape[2] ** -0.5 if scale is None else scale
    return _OPERATION.choose(q_THd, backend)(q_THd, k_TGd, v_TGe, ends_D, scale)
