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
from kernels.grouped_gemm import fp32
from kernels.grouped_gemm.cpu import dense_groups
from kernels.grouped_gemm.plan import RUN_GROUPS, RUN_ROWS, STEP, Machine, choose_capacity, round_up, runs
from kernels.mkl import Span


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """capacity    rows a group in the block, which is the first capacity * groups rows of the buffer
    by_torch    groups of their own, in buffer rows padded to a multiple of STEP
    by_mkl      runs of groups whose rows MKL multiplies, in buffer rows without pads
    weights     runs of all groups of their own, for wgrad
    float32     no block, groups one after another without pads (fp32.py)
    source      [R] sorted row of each buffer row, an arbitrary one at pads
    pads        [P] buffer rows that hold nothing
    zero_row    the last buffer row belongs to dropped pairs
    identity    buffer rows are the sorted rows
    batch       float32 groups are one batch, not torch's loop
    place       [T] buffer row of each sorted row
    exact       wgrad of separate groups is computed by MKL
    """

    capacity: int
    by_torch: tuple[Span, ...]
    by_mkl: tuple[tuple[Span, ...], ...]
    weights: tuple[tuple[Span, ...], ...]
    float32: bool
    source: Tensor
    pads: Tensor
    place: Tensor
    zero_row: bool
    identity: bool
    batch: bool
    exact: bool


@lru_cache(maxsize=64)
def make_layout(
    loads: tuple[int, ...], total_rows: int, inner: int, outer: int, dtype: torch.dtype, machine: Machine, threads: int
) -> Layout:
    """The layout for an expert MLP with [inner, outer]-sized weights; a function of the loads only."""
    loads_E = np.array(loads, dtype=np.int64)
    equal = len(set(loads)) == 1
    bf16 = dtype == torch.bfloat16
    capacity = loads[0] if equal else choose_capacity(loads_E, inner, outer, machine, gathered=True) if bf16 else 0
    small_E = loads_E <= capacity
    _, by_mkl_E = machine.separate(loads_E, inner, outer)
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
    spans = [Span(e, int(starts_E[e]), int(starts_E[e] + spans_E[e])) for e in np.flatnonzero(~small_E).tolist()]
    return Layout(
        capacity=capacity,
        by_torch=tuple(span for span in spans if not by_mkl_E[span.group]),
        by_mkl=runs([span for span in spans if by_mkl_E[span.group]], max_rows=RUN_ROWS),
        weights=runs(spans, max_groups=RUN_GROUPS),
        float32=not bf16 and not equal,
        source=torch.from_numpy(np.maximum(source_R, 0)),
        pads=torch.from_numpy(np.flatnonzero(source_R < 0)),
        place=torch.from_numpy(place_T),
        zero_row=zero_row,
        identity=bool((source_R == np.arange(num_rows)).all()) and num_rows == total_rows,
        batch=fp32.in_a_batch(loads, inner, outer, threads),
        exact=bf16 and machine.has_mkl,
    )


def products(buffer_RK: Tensor, w_EKN: Tensor, layout: Layout, offsets_E: Tensor) -> Tensor:
    """buffer @ w for every buffer row; rows that hold nothing give zeros if they are zeros."""
    w_EKN = dense_groups(w_EKN)
    num_groups, inner, outer = w_EKN.shape
    if layout.float32:
        filled_RK = buffer_RK[: len(buffer_RK) - layout.zero_row]
        out_RN = fp32.row_products(filled_RK, w_EKN, offsets_E, batch=layout.batch)
        return torch.cat([out_RN, out_RN.new_zeros(1, outer)]) if layout.zero_row else out_RN
    out_RN = buffer_RK.new_empty(buffer_RK.shape[0], outer)
    out_RN[len(out_RN) - layout.zero_row :].zero_()
    block_rows = layout.capacity * num_groups
    if block_rows:
        block_ECK = buffer_RK[:block_rows].view(num_groups, layout.capacity, inner)
        torch.bmm(block_ECK, w_EKN, out=out_RN[:block_rows].view(num_groups, layout.capacity, outer))
    for group, start, stop in layout.by_torch:
        torch.mm(buffer_RK[start:stop], w_EKN[group], out=out_RN[start:stop])
    longest = max((run[-1].stop - run[0].start for run in layout.by_mkl), default=0)
    wide_SN = buffer_RK.new_empty(longest, outer, dtype=torch.float32)
    for run in layout.by_mkl:
        first, last = run[0].start, run[-1].stop
        mkl.grouped_rows(buffer_RK, w_EKN, run, wide_SN, first)
        out_RN[first:last].copy_(wide_SN[: last - first])
    return out_RN


def weight_products(x_RK: Tensor, dy_RN: Tensor, layout: Layout, offsets_E: Tensor) -> Tensor:
    """x.T @ dy for each group; both buffers must be zero where they hold nothing."""
    num_groups = len(offsets_E)
    if layout.float32:
        rows = len(x_RK) - layout.zero_row
        return fp32.weight_products(x_RK[:rows], dy_RN[:rows], offsets_E, batch=layout.batch)
    block_rows = layout.capacity * num_groups
    if block_rows:
        x_ECK = x_RK[:block_rows].view(num_groups, layout.capacity, -1)
        dw_EKN = torch.bmm(x_ECK.mT, dy_RN[:block_rows].view(num_groups, layout.capacity, -1))
    else:
        dw_EKN = dy_RN.new_zeros(num_groups, x_RK.shape[1], dy_RN.shape[1])
    wide_GKN = dw_EKN.new_empty(RUN_GROUPS if layout.exact else 0, *dw_EKN.shape[1:], dtype=torch.float32)
    for run in layout.weights:
        if layout.exact:
            mkl.grouped_weights(x_RK, dy_RN, run, wide_GKN)
            dw_EKN[run[0].group : run[-1].group + 1].copy_(wide_GKN[: len(run)])
            continue
        for group, start, stop in run:
            torch.mm(x_RK[start:stop].t(), dy_RN[start:stop], out=dw_EKN[group])
    return dw_EKN
