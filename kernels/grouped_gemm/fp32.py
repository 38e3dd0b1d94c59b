"""Float32 groups on rows in order, by torch's own loop over groups.

A float32 product needs no preparation a shape and starts in a few microseconds, so groups need neither padding nor
copies: that loop could not be beaten (a batch of MKL products, padded blocks and a loop from here were all slower).
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.grouped_gemm import reference


def row_products(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """x[t] @ w[group of t]; every row of x belongs to a group."""
    if _aligned(x_TK) and _aligned(w_EKN) and _aligned(w_EKN.mT):
        return torch._grouped_mm(x_TK, w_EKN, offs=offsets_E)
    return reference.grouped_gemm(x_TK, w_EKN, offsets_E)


def weight_products(x_TK: Tensor, dy_TN: Tensor, offsets_E: Tensor) -> Tensor:
    """x.T @ dy of each group, zeros for empty ones."""
    if _aligned(x_TK) and _aligned(dy_TN):
        return torch._grouped_mm(x_TK.t(), dy_TN, offs=offsets_E)
    dw_EKN = dy_TN.new_empty(len(offsets_E), x_TK.shape[1], dy_TN.shape[1])
    start = 0
    for dw_KN, stop in zip(dw_EKN, offsets_E.tolist(), strict=True):
        torch.mm(x_TK[start:stop].t(), dy_TN[start:stop], out=dw_KN)
        start = stop
    return dw_EKN


def _aligned(tensor: Tensor) -> bool:
    """torch's loop takes strides that are multiples of 16 bytes."""
    return tensor.shape[-1] * tensor.element_size() % 16 == 0
