"""Values as they come out of a format again, for matrices that contract over rows or over columns.

Shape letters: T sorted rows, K and N contraction and output dimensions, E groups.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from kernels import mxfp8, nvfp4
from kernels.backend import Backend
from kernels.quantised_gemm.settings import Form


def round_rows(x_RK: Tensor, form: Form, backend: Backend | None) -> Tensor:
    """float32 values of x quantised along its last dimension: scales per row."""
    if form == "mxfp8":
        return mxfp8.dequantise(mxfp8.quantise(x_RK, backend=backend), backend=backend)
    if form == "nvfp4":
        return nvfp4.dequantise(nvfp4.quantise(x_RK, backend=backend), backend=backend)
    return x_RK.to(torch.bfloat16).float()


def round_columns(x_TK: Tensor, offsets_E: Tensor, form: Form, backend: Backend | None) -> Tensor:
    """float32 values of x quantised along the rows of each group, for products that contract over them.

    A copy of its own, from the unquantised values: the transpose of a quantised matrix is not quantised along the other
    dimension. Blocks begin with each group, so that no scale is shared between experts.
    """
    if form == "bf16":
        return x_TK.to(torch.bfloat16).float()
    out_TK = torch.zeros(x_TK.shape, dtype=torch.float32, device=x_TK.device)
    for start, stop in itertools.pairwise([0, *offsets_E.tolist()]):
        if stop > start:
            out_TK[start:stop] = round_rows(x_TK[start:stop].t().contiguous(), form, backend).t()
    return out_TK


def round_weights(w_EKN: Tensor, form: Form, backend: Backend | None, *, along_outer: bool) -> Tensor:
    """float32 values of weights quantised along K (for the forward product) or along N (for dgrad)."""
    matrix = w_EKN if along_outer else w_EKN.mT
    rounded = round_rows(matrix.reshape(-1, matrix.shape[2]), form, backend).view(matrix.shape)
    return rounded if along_outer else rounded.mT
