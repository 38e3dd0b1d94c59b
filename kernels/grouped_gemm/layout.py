"""Rows of an expert MLP gathered into a buffer of their own, so that no product needs another copy.

The buffer holds the block (every group padded to a common capacity), then the separate groups, then, if pairs were
dropped, one row of zeros to which they point. What the plan's ways are: see plan.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from kernels import mkl
from kernels.grouped_gemm.cpu import dense_groups, torch_rows, torch_weights
from kernels.grouped_gemm.plan import STEP, Separate, choose_capacity, round_up, this_machine


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """capacity    rows a group in the block, which is the first capacity * groups rows of the buffer
    separate    groups of their own, in buffer rows; those torch computes are padded to a multiple of STEP
    torch_loop  no block, groups one after another without pads, computed by torch's own loop
    source      [R] sorted row of each buffer row, an arbitrary one at pads
    pads        [P] buffer rows that hold nothing
    zero_row    the last buffer row belongs to dropped pairs
    place       [T] buffer row of each sorted row
    exact       wgrad of separate groups is computed by MKL
    """

    capacity: int
    separate: tuple[Separate, ...]
    torch_loop: bool
    source: Tensor
    pads: Tensor
    place: Tensor
    zero_row: bool
    exact: bool


@lru_cache(maxsize=64)
def make_layout(loads: tuple[int, ...], total_rows: int, inner: int, outer: int, dtype: torch.dtype) -> Layout:
    """The layout for an expert MLP with [inner, outer]-sized weights; a function of the loads only."""
    loads_E = np.array(loads, dtype=np.int64)
    equal = len(set(loads)) == 1
    bf16 = dtype == torch.bfloat16
    capacity = loads[0] if equal else choose_capacity(loads_E, inner, outer, gathered=True) if bf16 else 0
    small_E = loads_E <= capacity
    _, by_mkl_E = this_machine().separate(loads_E, inner, outer)
    padded_E = round_up(loads_E, STEP) if bf16 else loads_E
    spans_E = np.where(small_E, 0, np.where(by_mkl_E, loads_E, padded_E))
    block_rows = capacity * len(loads)
    starts_E = np.where(small_E, np.arange(len(loads)) * capacity, block_rows + np.cumsum(spans_E) - spans_E)
    zero_row = sum(loads) < total_rows
    num_rows = block_rows + int(spans_E.sum()) + zero_row
    group_T = np.repeat(np.arange(len(loads)), loads_E)
    sorted_T = np.arange(len(group_T))
    place_T = np.full(total_rows, num_rows - 1, dtype=np.int64)
    place_T[: len(group_T)] = starts_E[group_T] + sorted_T - (np.cumsum(loads_E) - loads_E)[group_T]
    source_R = np.full(num_rows, -1, dtype=np.int64)
    source_R[place_T[: len(group_T)]] = sorted_T
    return Layout(
        capacity=capacity,
        separate=tuple(
            Separate(group=e, start=int(starts_E[e]), stop=int(starts_E[e] + spans_E[e]), by_mkl=bool(by_mkl_E[e]))
            for e in np.flatnonzero(~small_E).tolist()
        ),
        torch_loop=not bf16 and not equal,
        source=torch.from_numpy(np.maximum(source_R, 0)),
        pads=torch.from_numpy(np.flatnonzero(source_R < 0)),
        place=torch.from_numpy(place_T),
        zero_row=zero_row,
        exact=bf16 and mkl.available(),
    )


def products(buffer_RK: Tensor, w_EKN: Tensor, layout: Layout, offsets_E: Tensor) -> Tensor:
    """buffer @ w for every buffer row; rows that hold nothing give zeros if they are zeros."""
    w_EKN = dense_groups(w_EKN)
    num_groups, inner, outer = w_EKN.shape
    if layout.torch_loop:
        out_RN = torch_rows(buffer_RK[: len(buffer_RK) - layout.zero_row], w_EKN, offsets_E)
        return torch.cat([out_RN, out_RN.new_zeros(1, outer)]) if layout.zero_row else out_RN
    out_RN = buffer_RK.new_empty(buffer_RK.shape[0], outer)
    out_RN[len(out_RN) - layout.zero_row :].zero_()
    block_rows = layout.capacity * num_groups
    if block_rows:
        block_ECK = buffer_RK[:block_rows].view(num_groups, layout.capacity, inner)
        torch.bmm(block_ECK, w_EKN, out=out_RN[:block_rows].view(num_groups, layout.capacity, outer))
    longest = max((at.stop - at.start for at in layout.separate if at.by_mkl), default=0)
    wide_SN = buffer_RK.new_empty(longest, outer, dtype=torch.float32)
    for at in layout.separate:
        rows_nK, out_nN = buffer_RK[at.start : at.stop], out_RN[at.start : at.stop]
        if at.by_mkl:
            mkl.product(rows_nK, w_EKN[at.group], wide_SN[: len(rows_nK)])
            out_nN.copy_(wide_SN[: len(rows_nK)])
        else:
            torch.mm(rows_nK, w_EKN[at.group], out=out_nN)
    return out_RN


def weight_products(x_RK: Tensor, dy_RN: Tensor, layout: Layout, offsets_E: Tensor) -> Tensor:
    """x.T @ dy for each group; both buffers must be zero where they hold nothing."""
    num_groups = len(offsets_E)
    if layout.torch_loop:
        rows = len(x_RK) - layout.zero_row
        return torch_weights(x_RK[:rows], dy_RN[:rows], offsets_E)
    block_rows = layout.capacity * num_groups
    if block_rows:
        x_ECK = x_RK[:block_rows].view(num_groups, layout.capacity, -1)
        dw_EKN = torch.bmm(x_ECK.mT, dy_RN[:block_rows].view(num_groups, layout.capacity, -1))
    else:
        dw_EKN = dy_RN.new_zeros(num_groups, x_RK.shape[1], dy_RN.shape[1])
    wide_KN = dw_EKN.new_empty(dw_EKN.shape[1:], dtype=torch.float32)
    for at in layout.separate:
        rows_nK, dy_nN = x_RK[at.start : at.stop], dy_RN[at.start : at.stop]
        if layout.exact:
            mkl.product(rows_nK.t(), dy_nN, wide_KN)
            dw_EKN[at.group].copy_(wide_KN)
        else:
            torch.mm(rows_nK.t(), dy_nN, out=dw_EKN[at.group])
    return dw_EKN
