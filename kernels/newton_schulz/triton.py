# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Newton-Schulz in Triton: one kernel, out = alpha A B + beta C on a stack of matrices, three times a step."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.interpreter import INTERPRETED
from kernels.minifloat.triton import narrow
from kernels.newton_schulz.settings import COEFFICIENTS, EPSILON


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, out_ptr, rows, cols, inner, a_batch, a_row, a_col, b_batch, b_row, b_col, alpha, beta,
    ADD: tl.constexpr, INTERPRET: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One tile of one matrix; c and out are contiguous."""
    batch = tl.program_id(2).to(tl.int64)
    ms = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    ns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(0, inner, BLOCK_K):
        ks = first + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + batch * a_batch + ms[:, None] * a_row + ks[None, :] * a_col
        a = tl.load(a_ptrs, mask=(ms < rows)[:, None] & (ks < inner)[None, :], other=0.0)
        b_ptrs = b_ptr + batch * b_batch + ks[:, None] * b_row + ns[None, :] * b_col
        b = tl.load(b_ptrs, mask=(ks < inner)[:, None] & (ns < cols)[None, :], other=0.0)
        if INTERPRET:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    acc = acc * alpha
    places = batch * rows * cols + ms[:, None] * cols + ns[None, :]
    ok = (ms < rows)[:, None] & (ns < cols)[None, :]
    if ADD:
        acc += beta * tl.load(c_ptr + places, mask=ok, other=0.0).to(tl.float32)
    tl.store(out_ptr + places, narrow(acc, out_ptr.dtype.element_ty, INTERPRET), mask=ok)


def _product(a: Tensor, b: Tensor, *, c: Tensor | None = None, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    (batch, rows, inner), cols = a.shape, b.shape[2]
    out = a.new_empty(batch, rows, cols)
    tiles: dict[str, Any] = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    if INTERPRETED:
        tiles = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
    if out.numel():
        product_kernel[(triton.cdiv(rows, tiles["BLOCK_M"]), triton.cdiv(cols, tiles["BLOCK_N"]), batch)](
            a, b, a if c is None else c, out, rows, cols, inner, *a.stride(), *b.stride(), alpha, beta,
            ADD=c is not None, INTERPRET=INTERPRETED, **tiles,
        )  # fmt: skip
    return out


def newton_schulz(update_EMN: Tensor, steps: int, compute: torch.dtype) -> Tensor:
    """The Triton path of `kernels.newton_schulz.newton_schulz`."""
    a, b, c = COEFFICIENTS
    tall = update_EMN.shape[1] > update_EMN.shape[2]
    x_Emn = (update_EMN.mT if tall else update_EMN).to(compute).contiguous()
    norms_E = torch.linalg.vector_norm(x_Emn, dim=(1, 2)).clamp(min=EPSILON)
    x_Emn = x_Emn / norms_E[:, None, None]
    for _ in range(steps):
        gram_Emm = _product(x_Emn, x_Emn.mT)
        polynomial_Emm = _product(gram_Emm, gram_Emm, c=gram_Emm, alpha=c, beta=b)
        x_Emn = _product(polynomial_Emm, x_Emn, c=x_Emn, beta=a)
    return (x_Emn.mT if tall else x_Emn).to(update_EMN.dtype)
