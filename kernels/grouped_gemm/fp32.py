"""Float32 groups on rows in order, without padding or copies: such a product needs no preparation a shape.

With one thread torch's own loop over groups does it: padded blocks, MKL's batch and a loop from here were no faster.
With more threads each small product of that loop waits for all of them; there groups that are small on average are one
MKL batch, which threads share product by product (1.1 to 1.4 times as fast on two). Python threads that each run a part
of the batch were slower: they compete with OpenMP's, which spin.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels import mkl
from kernels.grouped_gemm import reference

Ints = NDArray[np.int64]
SMALL = 4_000_000
"""Multiplications of an average product up to which a batch beats threads inside each product."""
PIECE = 512
"""Rows of a group that are one product of a batch, so that threads get even shares."""


def in_a_batch(loads: Sequence[int], inner: int, outer: int, threads: int) -> bool:
    """Whether such groups are one MKL batch (else torch's loop)."""
    filled = sum(load > 0 for load in loads)
    work = sum(loads) * inner * outer
    return threads > 1 and 0 < work <= SMALL * filled and mkl.batch_available()


def row_products(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, *, batch: bool) -> Tensor:
    """x[t] @ w[group of t]; every row of x belongs to a group."""
    inner, outer = w_EKN.shape[1:]
    if not batch:
        if torch_takes(x_TK, w_EKN):
            return torch._grouped_mm(x_TK, w_EKN, offs=offsets_E)
        return reference.grouped_gemm(x_TK, w_EKN, offsets_E)
    groups, starts, counts = _pieces(tuple(offsets_E.tolist()), PIECE)
    y_TN = x_TK.new_empty(x_TK.shape[0], outer)
    transposed = mkl.is_transposed(w_EKN[0])
    mkl.batched(
        mkl.operands(x_TK, starts, inner, inner),
        mkl.operands(w_EKN, groups, w_EKN.stride(0), inner if transposed else outer, transposed=transposed),
        mkl.operands(y_TN, starts, outer, outer),
        rows=counts,
        cols=outer,
        inner=inner,
    )
    return y_TN


def weight_products(x_TK: Tensor, dy_TN: Tensor, offsets_E: Tensor, *, batch: bool) -> Tensor:
    """x.T @ dy of each group, zeros for empty ones."""
    inner, outer = x_TK.shape[1], dy_TN.shape[1]
    if not batch and torch_takes(x_TK, dy_TN):
        return torch._grouped_mm(x_TK.t(), dy_TN, offs=offsets_E)
    groups, starts, counts = _pieces(tuple(offsets_E.tolist()), 0)
    dw_EKN = dy_TN.new_empty(len(offsets_E), inner, outer)
    for group in np.setdiff1d(np.arange(len(offsets_E)), groups).tolist():
        dw_EKN[group].zero_()
    if batch:
        mkl.batched(
            mkl.operands(x_TK, starts, inner, inner, transposed=True),
            mkl.operands(dy_TN, starts, outer, outer),
            mkl.operands(dw_EKN, groups, inner * outer, outer),
            rows=inner,
            cols=outer,
            inner=counts,
        )
        return dw_EKN
    for group, start, count in zip(groups.tolist(), starts.tolist(), counts.tolist(), strict=True):
        torch.mm(x_TK[start : start + count].t(), dy_TN[start : start + count], out=dw_EKN[group])
    return dw_EKN


def torch_takes(x_TK: Tensor, other: Tensor) -> bool:
    """torch's loop takes strides that are multiples of 16 bytes, of weights in either direction."""
    widths = (x_TK.shape[1], other.shape[-1], other.shape[-2] if other.dim() == 3 else 0)
    return all(width * x_TK.element_size() % 16 == 0 for width in widths)


@lru_cache(maxsize=64)
def _pieces(ends: tuple[int, ...], largest: int) -> tuple[Ints, Ints, Ints]:
    """Group, first row and row count of pieces of at most `largest` rows (0: of whole groups); no piece is empty."""
    ends_E = np.array(ends, dtype=np.int64)
    starts_E = np.concatenate([[0], ends_E[:-1]])
    counts_E = ends_E - starts_E
    pieces_E = -(-counts_E // largest) if largest else (counts_E > 0).astype(np.int64)
    groups = np.repeat(np.arange(len(ends)), pieces_E)
    within = np.arange(len(groups)) - np.repeat(np.cumsum(pieces_E) - pieces_E, pieces_E)
    starts = starts_E[groups] + largest * within
    left = ends_E[groups] - starts
    return groups, starts, np.minimum(left, largest) if largest else left
