"""Grouped GEMM on CPUs, on rows that stay where they are. The plan (plan.py) says which group is computed how.

Where torch multiplies a group alone, its row count is rounded up to a multiple of STEP: that also writes rows of the
groups behind it, which their own results overwrite later. Without MKL such a group's wgrad takes the rows beyond a
multiple of STEP from the block and adds the rest: bf16 rounds once more on that small part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels import mkl
from kernels.grouped_gemm import fp32
from kernels.grouped_gemm.plan import STEP, Block, Plan, loads_of, make_plan, this_machine


def grouped_gemm(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """The CPU path of `kernels.grouped_gemm.grouped_gemm`."""
    x_TK, w_EKN = x_TK.contiguous(), dense_groups(w_EKN)
    loads, sizes = loads_of(offsets_E), w_EKN.shape[1:]
    plan = make_plan(loads, *sizes, x_TK.dtype, this_machine(torch.get_num_threads()), torch.get_num_threads())
    if plan.float32 and not plan.batch and 0 < plan.num_rows == len(x_TK) and fp32.torch_takes(x_TK, w_EKN):
        return _torch_loop(x_TK, w_EKN, offsets_E)
    y_TN: Tensor = _GroupedGemm.apply(x_TK, w_EKN, offsets_E, plan)  # type: ignore[no-untyped-call]
    return y_TN


def _torch_loop(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """torch's own, with its own gradient; that one refuses an expanded tensor, such as a sum's gradient."""
    y_TN = torch._grouped_mm(x_TK, w_EKN, offs=offsets_E)
    if y_TN.requires_grad:
        y_TN.register_hook(torch.Tensor.contiguous)  # type: ignore[no-untyped-call]
    return y_TN


class _GroupedGemm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor, plan: Plan) -> Tensor:
        y_TN, block_RK = row_products(x_TK, w_EKN, plan, offsets_E)
        ctx.plan = plan
        needs_rows = plan.weights or block_RK is None
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
    if plan.float32 and whole:
        return fp32.row_products(x_TK, w_EKN, offsets_E, batch=plan.batch), None
    block_RK, block_RN = None, None
    if plan.block is not None and plan.block_rows:
        block_RK = _gather(x_TK, plan.block)
        block_RN = torch.bmm(block_RK.view(num_groups, plan.block.capacity, inner), w_EKN).view(-1, outer)
        if not plan.weights and whole:
            return block_RN.index_select(0, plan.block.places), block_RK
    y_TN = x_TK.new_empty(total, outer)
    if plan.float32:
        y_TN[: plan.num_rows] = fp32.row_products(x_TK[: plan.num_rows], w_EKN, offsets_E, batch=plan.batch)
    elif plan.equal:
        rows_EnK = x_TK[: plan.num_rows].view(num_groups, plan.equal, inner)
        torch.bmm(rows_EnK, w_EKN, out=y_TN[: plan.num_rows].view(num_groups, plan.equal, outer))
    else:
        _torch_alone(x_TK, w_EKN, y_TN, plan)
        _mkl_runs(x_TK, w_EKN, y_TN, plan)
    if plan.block is not None and block_RN is not None:
        y_TN.index_copy_(0, plan.block.rows, block_RN.index_select(0, plan.block.places))
    y_TN[plan.num_rows :].zero_()
    return y_TN, block_RK


def _torch_alone(x_TK: Tensor, w_EKN: Tensor, y_TN: Tensor, plan: Plan) -> None:
    """Write these groups' rows, and possibly rubbish into rows behind them, but none behind the last group."""
    for group, start, stop in plan.by_torch:
        count = stop - start
        over = start - (-count // STEP) * STEP
        cut = over if over <= plan.num_rows else stop - count % STEP
        if cut > start:
            torch.mm(x_TK[start:cut], w_EKN[group], out=y_TN[start:cut])
        if cut < stop:
            torch.mm(x_TK[cut:stop], w_EKN[group], out=y_TN[cut:stop])


def _mkl_runs(x_TK: Tensor, w_EKN: Tensor, y_TN: Tensor, plan: Plan) -> None:
    longest = max((run[-1].stop - run[0].start for run in plan.by_mkl), default=0)
    wide_SN = x_TK.new_empty(longest, y_TN.shape[1], dtype=torch.float32)
    for run in plan.by_mkl:
        first, last = run[0].start, run[-1].stop
        mkl.grouped_rows(x_TK, w_EKN, run, wide_SN, first)
        y_TN[first:last].copy_(wide_SN[: last - first])


def weight_products(
    x_TK: Tensor | None, dy_TN: Tensor, plan: Plan, offsets_E: Tensor, blocks: tuple[Tensor | None, Tensor | None]
) -> Tensor:
    """x.T @ dy for each group; groups without rows give zeros. Blocks gathered before are reused.

    `x_TK` may be None when every row is in the block.
    """
    num_groups = len(offsets_E)
    if plan.equal or plan.float32:
        assert x_TK is not None
        if plan.float32:
            rows = slice(plan.num_rows)
            return fp32.weight_products(x_TK[rows], dy_TN[rows], offsets_E, batch=plan.batch)
        x_EnK = x_TK[: plan.num_rows].view(num_groups, plan.equal, -1)
        return torch.bmm(x_EnK.mT, dy_TN[: plan.num_rows].view(num_groups, plan.equal, -1))
    if plan.block is None:
        assert x_TK is not None
        dw_EKN = dy_TN.new_empty(num_groups, x_TK.shape[1], dy_TN.shape[1])
        for group in plan.empty:
            dw_EKN[group].zero_()
    else:
        dw_EKN = _block_weights(x_TK, dy_TN, plan, blocks)
    if x_TK is not None:
        _alone_weights(x_TK, dy_TN, dw_EKN, plan)
    return dw_EKN


def _block_weights(
    x_TK: Tensor | None, dy_TN: Tensor, plan: Plan, blocks: tuple[Tensor | None, Tensor | None]
) -> Tensor:
    block, (x_RK, dy_RN) = plan.block, blocks
    assert block is not None
    if x_RK is None:
        assert x_TK is not None
        x_RK = _gather(x_TK, block)
    if dy_RN is None:
        dy_RN = _gather(dy_TN, block)
    return torch.bmm(x_RK.view(-1, block.capacity, x_RK.shape[1]).mT, dy_RN.view(-1, block.capacity, dy_RN.shape[1]))


def _gather(x_TK: Tensor, block: Block) -> Tensor:
    """The block's rows, zeros at its pads: wgrad sums over them."""
    return x_TK.index_select(0, block.source).index_fill_(0, block.pads, 0)


def _alone_weights(x_TK: Tensor, dy_TN: Tensor, dw_EKN: Tensor, plan: Plan) -> None:
    longest = max((len(run) for run in plan.weights), default=0) if plan.exact else 0
    wide_GKN = dw_EKN.new_empty(longest, *dw_EKN.shape[1:], dtype=torch.float32)
    for run in plan.weights:
        if plan.exact:
            mkl.grouped_weights(x_TK, dy_TN, run, wide_GKN)
            dw_EKN[run[0].group : run[-1].group + 1].copy_(wide_GKN[: len(run)])
            continue
        for group, start, stop in run:
            cut = stop - (stop - start) % STEP
            if plan.block is None:
                torch.mm(x_TK[start:cut].t(), dy_TN[start:cut], out=dw_EKN[group])
            elif cut > start:
                dw_EKN[group].addmm_(x_TK[start:cut].t(), dy_TN[start:cut])
