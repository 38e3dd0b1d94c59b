"""Grouped GEMM on CPUs, on rows that stay where they are. The plan (plan.py) says which group is computed how.

A separate group's row count is rounded up to a multiple of STEP when torch computes it: that product also writes rows
of the groups behind it, which their own results overwrite, in ascending order. Without MKL a separate group's wgrad
takes the rows beyond a multiple of STEP from the block and adds the rest: bf16 rounds once more on that small part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels import mkl
from kernels.grouped_gemm import reference
from kernels.grouped_gemm.plan import STEP, Plan, Separate, loads_of, make_plan


def grouped_gemm(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """The CPU path of `kernels.grouped_gemm.grouped_gemm`."""
    loads = loads_of(offsets_E.tolist())
    y_TN: Tensor = _GroupedGemm.apply(x_TK, w_EKN, offsets_E, loads)  # type: ignore[no-untyped-call]
    return y_TN


class _GroupedGemm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, loads: tuple[int, ...]) -> Tensor:
        x_TK, w_EKN = x_TK.contiguous(), dense_groups(w_EKN)
        plan = make_plan(loads, w_EKN.shape[1], w_EKN.shape[2], x_TK.dtype)
        y_TN, block_RK = row_products(x_TK, w_EKN, plan, offsets_E)
        ctx.plan = plan
        needs_rows = plan.separate or block_RK is None
        ctx.save_for_backward(x_TK if needs_rows else None, w_EKN, block_RK, offsets_E)
        return y_TN

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_TK, w_EKN, x_block_RK, offsets_E = ctx.saved_tensors
        dy_TN = grads[0].contiguous()
        dx_TK, dw_EKN, dy_block_RN = None, None, None
        if ctx.needs_input_grad[0]:
            dx_TK, dy_block_RN = row_products(dy_TN, w_EKN.mT, ctx.plan, offsets_E)
        if ctx.needs_input_grad[1]:
            blocks = (x_block_RK, dy_block_RN)
            dw_EKN = weight_products(x_TK, dy_TN, ctx.plan, offsets_E, blocks)
        return dx_TK, dw_EKN, None, None


def dense_groups(w_EKN: Tensor) -> Tensor:
    """The weights, copied unless each group is a dense matrix or the transpose of one."""
    inner, outer = w_EKN.shape[1:]
    return w_EKN if w_EKN.stride()[1:] in ((outer, 1), (1, inner)) else w_EKN.contiguous()


def row_products(x_TK: Tensor, w_EKN: Tensor, plan: Plan, offsets_E: Tensor) -> tuple[Tensor, Tensor | None]:
    """x @ w for the rows of each group, zero behind the last; and the block gathered from x, if results need one."""
    total, (num_groups, inner, outer) = x_TK.shape[0], w_EKN.shape
    whole = plan.num_rows == total
    if plan.equal and whole:
        return torch.bmm(x_TK.view(num_groups, plan.equal, inner), w_EKN).view(total, outer), None
    if plan.equal or plan.torch_loop:
        x_rows_TK = x_TK[: plan.num_rows]
        y_rows_TN = torch_rows(x_rows_TK, w_EKN, offsets_E)
        return (
            (y_rows_TN, None) if whole else (torch.cat([y_rows_TN, x_TK.new_zeros(total - plan.num_rows, outer)]), None)
        )
    block_RK, block_RN = None, None
    if plan.block is not None and plan.block_rows:
        block_RK = x_TK.index_select(0, plan.block.source)
        block_RN = torch.bmm(block_RK.view(num_groups, plan.block.capacity, inner), w_EKN).view(-1, outer)
        if not plan.separate and whole:
            return block_RN.index_select(0, plan.block.places), block_RK
    y_TN = x_TK.new_empty(total, outer)
    _separate_rows(x_TK[: plan.num_rows], w_EKN, y_TN[: plan.num_rows], plan.separate)
    if plan.block is not None and block_RN is not None:
        y_TN.index_copy_(0, plan.block.rows, block_RN.index_select(0, plan.block.places))
    y_TN[plan.num_rows :].zero_()
    return y_TN, block_RK


def torch_rows(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """torch's loop where it takes these strides (multiples of 16 bytes), else ours."""
    if _aligned(x_TK) and _aligned(w_EKN) and _aligned(w_EKN.mT):
        return torch._grouped_mm(x_TK, w_EKN, offs=offsets_E)
    return reference.grouped_gemm(x_TK, w_EKN, offsets_E)


def torch_weights(x_TK: Tensor, dy_TN: Tensor, offsets_E: Tensor) -> Tensor:
    """The same for wgrad."""
    if _aligned(x_TK) and _aligned(dy_TN):
        return torch._grouped_mm(x_TK.t(), dy_TN, offs=offsets_E)
    sizes = list(loads_of(offsets_E.tolist()))
    parts = zip(torch.split(x_TK, sizes), torch.split(dy_TN, sizes), strict=True)
    return torch.stack([x_nK.t() @ dy_nN for x_nK, dy_nN in parts])


def _aligned(tensor: Tensor) -> bool:
    return tensor.shape[-1] * tensor.element_size() % 16 == 0


def _separate_rows(x_TK: Tensor, w_EKN: Tensor, y_TN: Tensor, groups: tuple[Separate, ...]) -> None:
    """Write the separate groups' rows, and possibly rubbish into rows behind them but none behind the last row."""
    num_rows = x_TK.shape[0]
    longest = max((g.stop - g.start for g in groups if g.by_mkl), default=0)
    wide_SN = x_TK.new_empty(longest, y_TN.shape[1], dtype=torch.float32)
    for at in groups:
        w_KN, count = w_EKN[at.group], at.stop - at.start
        if at.by_mkl:
            mkl.product(x_TK[at.start : at.stop], w_KN, wide_SN[:count])
            y_TN[at.start : at.stop].copy_(wide_SN[:count])
            continue
        over = at.start - (-count // STEP) * STEP
        cut = over if over <= num_rows else at.stop - count % STEP
        if cut > at.start:
            torch.mm(x_TK[at.start : cut], w_KN, out=y_TN[at.start : cut])
        if cut < at.stop:
            torch.mm(x_TK[cut : at.stop], w_KN, out=y_TN[cut : at.stop])


def weight_products(
    x_TK: Tensor | None, dy_TN: Tensor, plan: Plan, offsets_E: Tensor, blocks: tuple[Tensor | None, Tensor | None]
) -> Tensor:
    """x.T @ dy for each group; groups without rows give zeros. Blocks gathered before are reused.

    `x_TK` may be None when every row is in the block.
    """
    num_groups = len(offsets_E)
    if plan.equal or plan.torch_loop:
        assert x_TK is not None
        x_TK, dy_TN = x_TK[: plan.num_rows], dy_TN[: plan.num_rows]
        if plan.equal:
            return torch.bmm(x_TK.view(num_groups, plan.equal, -1).mT, dy_TN.view(num_groups, plan.equal, -1))
        return torch_weights(x_TK, dy_TN, offsets_E)
    if plan.block is None:
        assert x_TK is not None
        dw_EKN = dy_TN.new_zeros(num_groups, x_TK.shape[1], dy_TN.shape[1])
    else:
        dw_EKN = _block_weights(x_TK, dy_TN, plan, blocks)
    if x_TK is not None:
        _separate_weights(x_TK, dy_TN, dw_EKN, plan)
    return dw_EKN


def _block_weights(
    x_TK: Tensor | None, dy_TN: Tensor, plan: Plan, blocks: tuple[Tensor | None, Tensor | None]
) -> Tensor:
    block, (x_RK, dy_RN) = plan.block, blocks
    assert block is not None
    if x_RK is None:
        assert x_TK is not None
        x_RK = x_TK.index_select(0, block.source)
    if dy_RN is None:
        dy_RN = dy_TN.index_select(0, block.source)
    x_RK.index_fill_(0, block.pads, 0)
    dy_RN.index_fill_(0, block.pads, 0)
    return torch.bmm(x_RK.view(-1, block.capacity, x_RK.shape[1]).mT, dy_RN.view(-1, block.capacity, dy_RN.shape[1]))


def _separate_weights(x_TK: Tensor, dy_TN: Tensor, dw_EKN: Tensor, plan: Plan) -> None:
    wide_KN = dw_EKN.new_empty(dw_EKN.shape[1:], dtype=torch.float32)
    for at in plan.separate:
        if plan.exact:
            mkl.product(x_TK[at.start : at.stop].t(), dy_TN[at.start : at.stop], wide_KN)
            dw_EKN[at.group].copy_(wide_KN)
            continue
        cut = at.stop - (at.stop - at.start) % STEP
        if cut > at.start:
            dw_EKN[at.group].addmm_(x_TK[at.start : cut].t(), dy_TN[at.start : cut])
