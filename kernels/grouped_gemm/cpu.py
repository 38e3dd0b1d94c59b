"""Grouped GEMM on CPUs, on rows that stay where they are. The plan (plan.py) says which group is computed how.

A large group's row count is rounded up to the plan's step: the product then also writes rows of the groups behind it,
which are overwritten by their own results, in ascending order. For wgrad the rows beyond a multiple of the step go
through the block first and the rest is added to it, so a bf16 gradient is rounded once more only on that small part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.grouped_gemm.plan import Block, SortedPlan, loads_of, sorted_plan


def grouped_gemm(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """The CPU path of `kernels.grouped_gemm.grouped_gemm`."""
    loads = loads_of(offsets_E.tolist())
    y_TN: Tensor = _GroupedGemm.apply(x_TK, w_EKN, offsets_E, loads)
    return y_TN


class _GroupedGemm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, loads: tuple[int, ...]) -> Tensor:
        x_TK, w_EKN = x_TK.contiguous(), _packed(w_EKN)
        plan = sorted_plan(loads, w_EKN.shape[1], w_EKN.shape[2], x_TK.dtype)
        y_TN, block_RK = row_products(x_TK, w_EKN, plan, offsets_E)
        ctx.plan, ctx.num_rows = plan, x_TK.shape[0]
        ctx.save_for_backward(x_TK if plan.large or block_RK is None else None, w_EKN, block_RK, offsets_E)
        return y_TN

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_TK, w_EKN, x_block_RK, offsets_E = ctx.saved_tensors
        dy_TN = grads[0].contiguous()
        dx_TK, dw_EKN, dy_block_RN = None, None, None
        if ctx.needs_input_grad[0]:
            dx_TK, dy_block_RN = row_products(dy_TN, w_EKN.mT, ctx.plan, offsets_E)
        if ctx.needs_input_grad[1]:
            dw_EKN = weight_products(x_TK, dy_TN, ctx.plan, offsets_E, x_block_RK, dy_block_RN)
        return dx_TK, dw_EKN, None, None


def _packed(w_EKN: Tensor) -> Tensor:
    """The weights, copied unless each group is a dense matrix or the transpose of one."""
    num_groups, inner, outer = w_EKN.shape
    strides = w_EKN.stride()[1:]
    return w_EKN if strides in ((outer, 1), (1, inner)) else w_EKN.contiguous()


def row_products(x_TK: Tensor, w_EKN: Tensor, plan: SortedPlan, offsets_E: Tensor) -> tuple[Tensor, Tensor | None]:
    """x @ w for each group's rows, and the block gathered from x if the plan has one for rows."""
    total, (num_groups, inner, outer) = x_TK.shape[0], w_EKN.shape
    if plan.equal and plan.num_rows == total:
        return torch.bmm(x_TK.view(num_groups, plan.equal, inner), w_EKN).view(total, outer), None
    if plan.num_rows == total and _torch_loops(x_TK, w_EKN, plan):
        return torch._grouped_mm(x_TK, w_EKN, offs=offsets_E), None
    block, block_RK = plan.block, None
    if block is not None and plan.in_block:
        block_RK = x_TK.index_select(0, block.source_R)
        products_RN = torch.bmm(block_RK.view(num_groups, block.capacity, inner), w_EKN).view(-1, outer)
        if not plan.large and plan.num_rows == total:
            return products_RN.index_select(0, block.places_S), block_RK
    y_TN = x_TK.new_empty(total, outer)
    y_TN[plan.num_rows :].zero_()
    if plan.equal:
        rows_EnK = x_TK[: plan.num_rows].view(num_groups, plan.equal, inner)
        torch.bmm(rows_EnK, w_EKN, out=y_TN[: plan.num_rows].view(num_groups, plan.equal, outer))
        return y_TN, None
    _large_rows(x_TK, w_EKN, y_TN, plan)
    if block is not None and plan.in_block:
        y_TN.index_copy_(0, block.rows_S, products_RN.index_select(0, block.places_S))
    return y_TN, block_RK


def _large_rows(x_TK: Tensor, w_EKN: Tensor, y_TN: Tensor, plan: SortedPlan) -> None:
    """Write the large groups' rows. Rounding up stops at the last group's end: rows behind it stay as they are."""
    for group, start, stop in plan.large:
        rounded = start - (start - stop) // plan.step * plan.step
        cut = rounded if rounded <= plan.num_rows else stop - (stop - start) % plan.step
        w_KN = w_EKN[group]
        if cut > start:
            torch.mm(x_TK[start:cut], w_KN, out=y_TN[start:cut])
        if cut < stop:
            torch.mm(x_TK[cut:stop], w_KN, out=y_TN[cut:stop])


def weight_products(
    x_TK: Tensor, dy_TN: Tensor, plan: SortedPlan, offsets_E: Tensor, x_block_RK: Tensor | None, dy_block_RN: Tensor | None
) -> Tensor:
    """x.T @ dy for each group; groups without rows give zeros. The blocks are reused where they exist already."""
    num_groups, inner, outer = len(offsets_E), x_TK.shape[1] if x_TK is not None else x_block_RK.shape[1], dy_TN.shape[1]
    if plan.equal:
        rows = (num_groups, plan.equal, -1)
        return torch.bmm(x_TK[: plan.num_rows].view(rows).mT, dy_TN[: plan.num_rows].view(rows))
    if _torch_loops(x_TK, dy_TN, plan):
        return torch._grouped_mm(x_TK[: plan.num_rows].t(), dy_TN[: plan.num_rows], offs=offsets_E)
    if plan.block is None:
        dw_EKN = dy_TN.new_empty(num_groups, inner, outer)
        for group in plan.empty:
            dw_EKN[group].zero_()
    else:
        dw_EKN = _block_weights(x_TK, dy_TN, plan.block, x_block_RK, dy_block_RN)
    for group, start, stop in plan.large:
        cut = stop - (stop - start) % plan.step
        if plan.block is None:
            torch.mm(x_TK[start:cut].t(), dy_TN[start:cut], out=dw_EKN[group])
        elif cut > start:
            dw_EKN[group].addmm_(x_TK[start:cut].t(), dy_TN[start:cut])
    return dw_EKN


def _block_weights(
    x_TK: Tensor, dy_TN: Tensor, block: Block, x_block_RK: Tensor | None, dy_block_RN: Tensor | None
) -> Tensor:
    if x_block_RK is None:
        x_block_RK = x_TK.index_select(0, block.source_R)
    if dy_block_RN is None:
        dy_block_RN = dy_TN.index_select(0, block.source_R)
    x_block_RK.index_fill_(0, block.pads_P, 0)
    dy_block_RN.index_fill_(0, block.pads_P, 0)
    x_ECK = x_block_RK.view(-1, block.capacity, x_block_RK.shape[1])
    return torch.bmm(x_ECK.mT, dy_block_RN.view(-1, block.capacity, dy_block_RN.shape[1]))


def _torch_loops(x_TK: Tensor, other: Tensor, plan: SortedPlan) -> bool:
    """Whether torch's own loop does the same with less overhead: it takes row strides that are multiples of 16 bytes."""
    if plan.step > 1 or plan.block is not None:
        return False
    return all(t.shape[-1] * t.element_size() % 16 == 0 for t in (x_TK, other))
