# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""RMSNorm and RoPE in Triton: a program takes a block of (token, head) rows; each row is read once."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.interpreter import INTERPRETED
from kernels.minifloat.triton import narrow


@triton.jit
def forward_kernel(
    x_ptr, weight_ptr, cos_ptr, sin_ptr, y_ptr, rows, heads, half, epsilon,
    INTERPRET: tl.constexpr, BLOCK_R: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Both halves of BLOCK_R rows."""
    rs = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    cs = tl.arange(0, HALF)
    ok = (rs < rows)[:, None] & (cs < half)[None, :]
    places = rs.to(tl.int64)[:, None] * (2 * half) + cs[None, :]
    first = tl.load(x_ptr + places, mask=ok, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + places + half, mask=ok, other=0.0).to(tl.float32)
    mean = tl.sum(first * first + second * second, axis=1) / (2 * half)
    rms = tl.rsqrt(mean + epsilon)[:, None]
    first = first * rms * tl.load(weight_ptr + cs, mask=cs < half, other=0.0).to(tl.float32)[None, :]
    second = second * rms * tl.load(weight_ptr + half + cs, mask=cs < half, other=0.0).to(tl.float32)[None, :]
    table = (rs // heads).to(tl.int64)[:, None] * half + cs[None, :]
    cos = tl.load(cos_ptr + table, mask=ok, other=0.0)
    sin = tl.load(sin_ptr + table, mask=ok, other=0.0)
    tl.store(y_ptr + places, narrow(first * cos - second * sin, y_ptr.dtype.element_ty, INTERPRET), mask=ok)
    tl.store(y_ptr + places + half, narrow(second * cos + first * sin, y_ptr.dtype.element_ty, INTERPRET), mask=ok)


@triton.jit
def backward_kernel(
    x_ptr, weight_ptr, cos_ptr, sin_ptr, dy_ptr, dx_ptr, dweight_ptr, rows, heads, half, epsilon,
    INTERPRET: tl.constexpr, BLOCK_R: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """dx of BLOCK_R rows and this program's part of the weight's gradient."""
    rs = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    cs = tl.arange(0, HALF)
    col_ok = cs < half
    ok = (rs < rows)[:, None] & col_ok[None, :]
    places = rs.to(tl.int64)[:, None] * (2 * half) + cs[None, :]
    first = tl.load(x_ptr + places, mask=ok, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + places + half, mask=ok, other=0.0).to(tl.float32)
    mean = tl.sum(first * first + second * second, axis=1) / (2 * half)
    rms = tl.rsqrt(mean + epsilon)[:, None]
    first = first * rms
    second = second * rms
    table = (rs // heads).to(tl.int64)[:, None] * half + cs[None, :]
    cos = tl.load(cos_ptr + table, mask=ok, other=0.0)
    sin = tl.load(sin_ptr + table, mask=ok, other=0.0)
    dy_first = tl.load(dy_ptr + places, mask=ok, other=0.0).to(tl.float32)
    dy_second = tl.load(dy_ptr + places + half, mask=ok, other=0.0).to(tl.float32)
    dn_first = dy_first * cos + dy_second * sin
    dn_second = dy_second * cos - dy_first * sin
    base = dweight_ptr + tl.program_id(0).to(tl.int64) * (2 * half) + cs
    tl.store(base, tl.sum(dn_first * first, axis=0), mask=col_ok)
    tl.store(base + half, tl.sum(dn_second * second, axis=0), mask=col_ok)
    dn_first = dn_first * tl.load(weight_ptr + cs, mask=col_ok, other=0.0).to(tl.float32)[None, :]
    dn_second = dn_second * tl.load(weight_ptr + half + cs, mask=col_ok, other=0.0).to(tl.float32)[None, :]
    inner = (tl.sum(dn_first * first + dn_second * second, axis=1) / (2 * half))[:, None]
    dtype = dx_ptr.dtype.element_ty
    tl.store(dx_ptr + places, narrow((dn_first - first * inner) * rms, dtype, INTERPRET), mask=ok)
    tl.store(dx_ptr + places + half, narrow((dn_second - second * inner) * rms, dtype, INTERPRET), mask=ok)


def norm_rope(x_THd: Tensor, weight_d: Tensor, cos_Tr: Tensor, sin_Tr: Tensor, epsilon: float) -> Tensor:
    """The Triton path of `kernels.norm_rope.norm_rope`."""
    y_THd: Tensor = _NormRope.apply(x_THd, weight_d, cos_Tr, sin_Tr, epsilon)
    return y_THd


def _blocks(half: int) -> dict[str, int]:
    width = triton.next_power_of_2(half)
    return {"BLOCK_R": 32 if INTERPRETED else max(1, 2048 // width), "HALF": width}


class _NormRope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_THd: Tensor, weight_d: Tensor, cos_Tr: Tensor, sin_Tr: Tensor, epsilon: float) -> Tensor:
        x_THd, cos_Tr, sin_Tr = x_THd.contiguous(), cos_Tr.contiguous(), sin_Tr.contiguous()
        rows, heads, half = x_THd.shape[0] * x_THd.shape[1], x_THd.shape[1], x_THd.shape[2] // 2
        y_THd, blocks = torch.empty_like(x_THd), _blocks(half)
        if rows:
            forward_kernel[(triton.cdiv(rows, blocks["BLOCK_R"]),)](
                x_THd, weight_d.contiguous(), cos_Tr, sin_Tr, y_THd, rows, heads, half, epsilon,
                INTERPRET=INTERPRETED, **blocks,
            )  # fmt: skip
        ctx.epsilon = epsilon
        ctx.save_for_backward(x_THd, weight_d, cos_Tr, sin_Tr)
        return y_THd

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_THd, weight_d, cos_Tr, sin_Tr = ctx.saved_tensors
        rows, heads, half = x_THd.shape[0] * x_THd.shape[1], x_THd.shape[1], x_THd.shape[2] // 2
        dx_THd, blocks = torch.empty_like(x_THd), _blocks(half)
        programs = triton.cdiv(rows, blocks["BLOCK_R"])
        dweight_Pd = x_THd.new_zeros(max(programs, 1), 2 * half, dtype=torch.float32)
        if rows:
            backward_kernel[(programs,)](
                x_THd, weight_d.contiguous(), cos_Tr, sin_Tr, grads[0].contiguous(), dx_THd, dweight_Pd,
                rows, heads, half, ctx.epsilon, INTERPRET=INTERPRETED, **blocks,
            )  # fmt: skip
        return dx_THd, dweight_Pd.sum(dim=0).to(weight_d.dtype), None, None, None
