# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Grouped GEMM in Triton: rows times weights, and wgrad. Both persistent, sums in float32.

Tiles are numbered group after group and, inside a group, in bands of 8 row tiles, so that programs that run together
share one group's weights. The rows behind the last group count as one more group with an empty sum: they are zeroed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.interpreter import INTERPRETED, num_programs
from kernels.minifloat.triton import narrow


@triton.jit
def _tile(local, row_tiles, col_tiles):
    """Row and column tile of a group's `local`-th tile: bands of 8 row tiles, column by column."""
    band = 8 * col_tiles
    first = (local // band) * 8
    height = tl.minimum(row_tiles - first, 8)
    inside = local % band
    return first + inside % height, inside // height


@triton.jit
def rows_kernel(
    x_ptr, w_ptr, y_ptr, aux_ptr, offsets_ptr, gather_ptr, scatter_ptr, scale_ptr,
    total, num_groups, inner, outer, x_row, x_col, w_group, w_inner, w_outer, y_row, aux_row,
    GATHER: tl.constexpr, SCATTER: tl.constexpr, SCALE: tl.constexpr, SWIGLU: tl.constexpr, INTERPRET: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[scatter(t)] = scale(t) * x[gather(t)] @ w[group of t]; with SWIGLU w holds gate and up columns side by side.

    With SWIGLU y gets silu(gate) * up and `aux` gate and up themselves.
    """
    tile = tl.program_id(0)
    stride = tl.num_programs(0)
    col_tiles = tl.cdiv(outer, BLOCK_N)
    seen = 0
    start = 0
    for group in range(num_groups + 1):
        real = group < num_groups
        end = tl.load(offsets_ptr + group, mask=real, other=total)
        depth = tl.where(real, inner, 0)
        w_base = w_ptr + tl.minimum(group, num_groups - 1).to(tl.int64) * w_group
        row_tiles = tl.cdiv(end - start, BLOCK_M)
        tiles = row_tiles * col_tiles
        while (tile >= seen) & (tile < seen + tiles):
            row_tile, col_tile = _tile(tile - seen, row_tiles, col_tiles)
            rows = start + row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
            cols = col_tile * BLOCK_N + tl.arange(0, BLOCK_N)
            row_ok = rows < end
            col_ok = cols < outer
            sources = rows.to(tl.int64)
            if GATHER:
                sources = tl.load(gather_ptr + rows, mask=row_ok, other=0)
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for step in range(0, depth, BLOCK_K):
                ks = step + tl.arange(0, BLOCK_K)
                k_ok = ks < inner
                x_ptrs = x_ptr + sources[:, None] * x_row + ks[None, :] * x_col
                x = tl.load(x_ptrs, mask=row_ok[:, None] & k_ok[None, :], other=0.0)
                w_ptrs = w_base + ks[:, None] * w_inner + cols[None, :] * w_outer
                w_ok = k_ok[:, None] & col_ok[None, :]
                w = tl.load(w_ptrs, mask=w_ok, other=0.0)
                if INTERPRET:
                    x = x.to(tl.float32)
                    w = w.to(tl.float32)
                acc = tl.dot(x, w, acc, input_precision="ieee")
                if SWIGLU:
                    w_up = tl.load(w_ptrs + outer * w_outer, mask=w_ok, other=0.0)
                    if INTERPRET:
                        w_up = w_up.to(tl.float32)
                    up = tl.dot(x, w_up, up, input_precision="ieee")
            ok = row_ok[:, None] & col_ok[None, :]
            if SWIGLU:
                aux_ptrs = aux_ptr + rows.to(tl.int64)[:, None] * aux_row + cols[None, :]
                tl.store(aux_ptrs, narrow(acc, aux_ptr.dtype.element_ty, INTERPRET), mask=ok)
                tl.store(aux_ptrs + outer, narrow(up, aux_ptr.dtype.element_ty, INTERPRET), mask=ok)
                acc = acc * tl.sigmoid(acc) * up
            if SCALE:
                scaled = rows < tl.where(real, end, start)
                acc = acc * tl.load(scale_ptr + rows, mask=scaled, other=0.0).to(tl.float32)[:, None]
            targets = rows.to(tl.int64)
            if SCATTER:
                targets = tl.load(scatter_ptr + rows, mask=row_ok, other=0)
            y_ptrs = y_ptr + targets[:, None] * y_row + cols[None, :]
            tl.store(y_ptrs, narrow(acc, y_ptr.dtype.element_ty, INTERPRET), mask=ok)
            tile += stride
        seen += tiles
        start = end


@triton.jit
def weights_kernel(
    x_ptr, dy_ptr, dw_ptr, offsets_ptr, gather_ptr, num_groups, inner, outer, x_row, dy_row,
    GATHER_X: tl.constexpr, GATHER_DY: tl.constexpr, INTERPRET: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """dw[e] = sum over rows t of group e of x[t].T dy[t]; x or dy may be read through the gather."""
    row_tiles = tl.cdiv(inner, BLOCK_M)
    col_tiles = tl.cdiv(outer, BLOCK_N)
    per_group = row_tiles * col_tiles
    for tile in range(tl.program_id(0), num_groups * per_group, tl.num_programs(0)):
        group = tile // per_group
        row_tile, col_tile = _tile(tile % per_group, row_tiles, col_tiles)
        start = tl.load(offsets_ptr + group - 1, mask=group > 0, other=0)
        end = tl.load(offsets_ptr + group)
        ins = row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
        outs = col_tile * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(start, end, BLOCK_K):
            rows = first + tl.arange(0, BLOCK_K)
            ok = rows < end
            x_rows = rows.to(tl.int64)
            dy_rows = rows.to(tl.int64)
            if GATHER_X:
                x_rows = tl.load(gather_ptr + rows, mask=ok, other=0)
            if GATHER_DY:
                dy_rows = tl.load(gather_ptr + rows, mask=ok, other=0)
            x_ptrs = x_ptr + x_rows[None, :] * x_row + ins[:, None]
            x = tl.load(x_ptrs, mask=ok[None, :] & (ins < inner)[:, None], other=0.0)
            dy_ptrs = dy_ptr + dy_rows[:, None] * dy_row + outs[None, :]
            dy = tl.load(dy_ptrs, mask=ok[:, None] & (outs < outer)[None, :], other=0.0)
            if INTERPRET:
                x = x.to(tl.float32)
                dy = dy.to(tl.float32)
            acc = tl.dot(x, dy, acc, input_precision="ieee")
        dw_ptrs = dw_ptr + (group.to(tl.int64) * inner + ins)[:, None] * outer + outs[None, :]
        ok_out = (ins < inner)[:, None] & (outs < outer)[None, :]
        tl.store(dw_ptrs, narrow(acc, dw_ptr.dtype.element_ty, INTERPRET), mask=ok_out)


def _tiles(dtype: torch.dtype, *, swiglu: bool = False) -> dict[str, Any]:
    """Tile sizes: small in the interpreter, else for a Hopper's shared memory. Fixed: no autotuning, no warm-up."""
    if INTERPRETED:
        return {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
    if dtype == torch.float32:
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    cols = 128 if swiglu else 256
    return {"BLOCK_M": 128, "BLOCK_N": cols, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}


@dataclass(frozen=True, kw_only=True, eq=False)
class RowMaps:
    """Where a product's rows are read and written (int64), what they are multiplied by; None: in order, by one."""

    gather: Tensor | None = None
    scatter: Tensor | None = None
    scale: Tensor | None = None


def row_products(
    x_NK: Tensor, w_EKN: Tensor, offsets_E: Tensor, total: int, maps: RowMaps, *, aux_TN2: Tensor | None = None
) -> Tensor:
    """One product for each of `total` sorted rows; see rows_kernel. With `aux` it is gate-up and SwiGLU."""
    num_groups, inner, outer = w_EKN.shape
    outer = outer // 2 if aux_TN2 is not None else outer
    y_TN = x_NK.new_empty(total, outer)
    if not total or not outer:
        return y_TN
    missing = offsets_E
    rows_kernel[(num_programs(x_NK.device.index),)](
        x_NK, w_EKN, y_TN, y_TN if aux_TN2 is None else aux_TN2, offsets_E,
        missing if maps.gather is None else maps.gather, missing if maps.scatter is None else maps.scatter,
        missing if maps.scale is None else maps.scale,
        total, num_groups, inner, outer, x_NK.stride(0), x_NK.stride(1), *w_EKN.stride(), y_TN.stride(0),
        0 if aux_TN2 is None else aux_TN2.stride(0),
        GATHER=maps.gather is not None, SCATTER=maps.scatter is not None, SCALE=maps.scale is not None,
        SWIGLU=aux_TN2 is not None, INTERPRET=INTERPRETED, **_tiles(x_NK.dtype, swiglu=aux_TN2 is not None),
    )  # fmt: skip
    return y_TN


def weight_products(
    x: Tensor, dy: Tensor, offsets_E: Tensor, *, gather_x: Tensor | None = None, gather_dy: Tensor | None = None
) -> Tensor:
    """dw[e] = x[rows of e].T @ dy[rows of e]; at most one of the two is read through a gather."""
    num_groups, inner, outer = len(offsets_E), x.shape[1], dy.shape[1]
    dw_EKN = x.new_empty(num_groups, inner, outer)
    gather = gather_x if gather_x is not None else gather_dy
    weights_kernel[(num_programs(x.device.index),)](
        x, dy, dw_EKN, offsets_E, offsets_E if gather is None else gather,
        num_groups, inner, outer, x.stride(0), dy.stride(0),
        GATHER_X=gather_x is not None, GATHER_DY=gather_dy is not None, INTERPRET=INTERPRETED, **_tiles(x.dtype),
    )  # fmt: skip
    return dw_EKN


def grouped_gemm(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """The Triton path of `kernels.grouped_gemm.grouped_gemm`."""
    y_TN: Tensor = _GroupedGemm.apply(x_TK, w_EKN, offsets_E)
    return y_TN


class _GroupedGemm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
        ctx.save_for_backward(x_TK, w_EKN, offsets_E)
        return row_products(x_TK, w_EKN, offsets_E, x_TK.shape[0], RowMaps())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_TK, w_EKN, offsets_E = ctx.saved_tensors
        dy_TN = grads[0].contiguous()
        dx_TK, dw_EKN = None, None
        if ctx.needs_input_grad[0]:
            dx_TK = row_products(dy_TN, w_EKN.mT, offsets_E, x_TK.shape[0], RowMaps())
        if ctx.needs_input_grad[1]:
            dw_EKN = weight_products(x_TK.contiguous(), dy_TN, offsets_E)
        return dx_TK, dw_EKN, None
