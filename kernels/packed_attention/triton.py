# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Packed-document attention in Triton (after FlashAttention-2, arXiv 2307.08691), without atomics.

No tile spans documents, and keys are only read inside the tile's document: not even a NaN can cross. The list of
tiles is computed on the device for the largest number there can be; programs behind the last tile do nothing. Rows
behind the last document count as one more, which sees no keys: it gets zeros.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.backend import require
from kernels.interpreter import INTERPRETED
from kernels.minifloat.triton import narrow

LARGEST_HEAD = 256
"""Larger heads do not fit a Hopper's shared memory with these tiles."""


@triton.jit
def _rows(ptr, rows, row_ok, head, num_heads, size, BLOCK: tl.constexpr, INTERPRET: tl.constexpr):
    """[rows, BLOCK] of one head of a contiguous [T, heads, size] tensor."""
    cols = tl.arange(0, BLOCK)
    ptrs = ptr + (rows.to(tl.int64)[:, None] * num_heads + head) * size + cols[None, :]
    x = tl.load(ptrs, mask=row_ok[:, None] & (cols < size)[None, :], other=0.0)
    return x.to(tl.float32) if INTERPRET else x


@triton.jit
def _put(ptr, x, rows, row_ok, head, num_heads, size, BLOCK: tl.constexpr, INTERPRET: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    ptrs = ptr + (rows.to(tl.int64)[:, None] * num_heads + head) * size + cols[None, :]
    tl.store(ptrs, narrow(x, ptr.dtype.element_ty, INTERPRET), mask=row_ok[:, None] & (cols < size)[None, :])


@triton.jit
def _tile(tiles_ptr):
    """First row of this program's tile, first and one past the last row of its document, where its keys end."""
    base = tiles_ptr + tl.program_id(0) * 4
    return tl.load(base), tl.load(base + 1), tl.load(base + 2), tl.load(base + 3)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, y_ptr, lse_ptr, tiles_ptr, heads, groups, size, value_size, scale,
    INTERPRET: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, SIZE: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    """y and logsumexp of a tile of rows of one query head."""
    head = tl.program_id(1)
    group = head // (heads // groups)
    first, begin, end, keys_end = _tile(tiles_ptr)
    rows = first + tl.arange(0, BLOCK_Q)
    row_ok = rows < end
    q = _rows(q_ptr, rows, row_ok, head, heads, size, SIZE, INTERPRET)
    top = tl.zeros((BLOCK_Q,), tl.float32) - float("inf")
    mass = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, VALUE), tl.float32)
    for at in range(begin, tl.minimum(first + BLOCK_Q, keys_end), BLOCK_K):
        keys = at + tl.arange(0, BLOCK_K)
        key_ok = keys < end
        k = _rows(k_ptr, keys, key_ok, group, groups, size, SIZE, INTERPRET)
        v = _rows(v_ptr, keys, key_ok, group, groups, value_size, VALUE, INTERPRET)
        logits = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = (keys[None, :] <= rows[:, None]) & row_ok[:, None]
        logits = tl.where(seen, logits, float("-inf"))
        peak = tl.maximum(top, tl.max(logits, axis=1))
        base = tl.where(peak == float("-inf"), 0.0, peak)
        powers = tl.where(seen, tl.exp(logits - base[:, None]), 0.0)
        shrink = tl.exp(top - base)
        mass = mass * shrink + tl.sum(powers, axis=1)
        acc = acc * shrink[:, None] + tl.dot(powers.to(v.dtype), v, input_precision="ieee")
        top = peak
    alone = mass == 0.0
    acc = acc / tl.where(alone, 1.0, mass)[:, None]
    _put(y_ptr, acc, rows, row_ok, head, heads, value_size, VALUE, INTERPRET)
    lse = tl.where(alone, 0.0, top + tl.log(tl.where(alone, 1.0, mass)))
    tl.store(lse_ptr + rows.to(tl.int64) * heads + head, lse, mask=row_ok)


@triton.jit
def query_kernel(
    q_ptr, k_ptr, v_ptr, dy_ptr, dq_ptr, lse_ptr, delta_ptr, tiles_ptr, heads, groups, size, value_size, scale,
    INTERPRET: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, SIZE: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    """dq of BLOCK_Q rows of one query head."""
    head = tl.program_id(1)
    group = head // (heads // groups)
    first, begin, end, keys_end = _tile(tiles_ptr)
    rows = first + tl.arange(0, BLOCK_Q)
    row_ok = rows < end
    q = _rows(q_ptr, rows, row_ok, head, heads, size, SIZE, INTERPRET)
    dy = _rows(dy_ptr, rows, row_ok, head, heads, value_size, VALUE, INTERPRET)
    lse = tl.load(lse_ptr + rows.to(tl.int64) * heads + head, mask=row_ok, other=0.0)
    delta = tl.load(delta_ptr + rows.to(tl.int64) * heads + head, mask=row_ok, other=0.0)
    dq = tl.zeros((BLOCK_Q, SIZE), tl.float32)
    for at in range(begin, tl.minimum(first + BLOCK_Q, keys_end), BLOCK_K):
        keys = at + tl.arange(0, BLOCK_K)
        key_ok = keys < end
        k = _rows(k_ptr, keys, key_ok, group, groups, size, SIZE, INTERPRET)
        v = _rows(v_ptr, keys, key_ok, group, groups, value_size, VALUE, INTERPRET)
        seen = (keys[None, :] <= rows[:, None]) & row_ok[:, None]
        logits = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        weights = tl.where(seen, tl.exp(logits - lse[:, None]), 0.0)
        dweights = tl.dot(dy, tl.trans(v), input_precision="ieee")
        dlogits = tl.where(seen, weights * (dweights - delta[:, None]), 0.0) * scale
        dq += tl.dot(dlogits.to(k.dtype), k, input_precision="ieee")
    _put(dq_ptr, dq, rows, row_ok, head, heads, size, SIZE, INTERPRET)


@triton.jit
def key_kernel(
    q_ptr, k_ptr, v_ptr, dy_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, tiles_ptr, heads, groups, size, value_size, scale,
    INTERPRET: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, SIZE: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    """dk and dv of BLOCK_K rows of one key head, over all query heads that use it."""
    group = tl.program_id(1)
    repeats = heads // groups
    first, _, end, keys_end = _tile(tiles_ptr)
    keys = first + tl.arange(0, BLOCK_K)
    key_ok = keys < end
    k = _rows(k_ptr, keys, key_ok, group, groups, size, SIZE, INTERPRET)
    v = _rows(v_ptr, keys, key_ok, group, groups, value_size, VALUE, INTERPRET)
    dk = tl.zeros((BLOCK_K, SIZE), tl.float32)
    dv = tl.zeros((BLOCK_K, VALUE), tl.float32)
    for head in range(group * repeats, group * repeats + repeats):
        for at in range(first, keys_end, BLOCK_Q):
            rows = at + tl.arange(0, BLOCK_Q)
            row_ok = rows < end
            q = _rows(q_ptr, rows, row_ok, head, heads, size, SIZE, INTERPRET)
            dy = _rows(dy_ptr, rows, row_ok, head, heads, value_size, VALUE, INTERPRET)
            lse = tl.load(lse_ptr + rows.to(tl.int64) * heads + head, mask=row_ok, other=0.0)
            delta = tl.load(delta_ptr + rows.to(tl.int64) * heads + head, mask=row_ok, other=0.0)
            seen = (keys[:, None] <= rows[None, :]) & row_ok[None, :]
            logits = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
            weights = tl.where(seen, tl.exp(logits - lse[None, :]), 0.0)
            dv += tl.dot(weights.to(dy.dtype), dy, input_precision="ieee")
            dweights = tl.dot(v, tl.trans(dy), input_precision="ieee")
            dlogits = tl.where(seen, weights * (dweights - delta[None, :]), 0.0) * scale
            dk += tl.dot(dlogits.to(q.dtype), q, input_precision="ieee")
    _put(dk_ptr, dk, keys, key_ok, group, groups, size, SIZE, INTERPRET)
    _put(dv_ptr, dv, keys, key_ok, group, groups, value_size, VALUE, INTERPRET)


def packed_attention(q_THd: Tensor, k_TGd: Tensor, v_TGe: Tensor, ends_D: Tensor, scale: float) -> Tensor:
    """The Triton path of `kernels.packed_attention.packed_attention`. UserInputError on heads beyond LARGEST_HEAD."""
    largest = max(q_THd.shape[2], v_TGe.shape[2])
    message = f"packed_attention: the triton backend does not serve heads of {largest}"
    require(largest <= LARGEST_HEAD, message, f"use heads of at most {LARGEST_HEAD}, or the reference backend")
    y_THe: Tensor = _PackedAttention.apply(q_THd, k_TGd, v_TGe, ends_D, scale)
    return y_THe


def _tiles(size: int, value_size: int) -> dict[str, Any]:
    widths = {"SIZE": max(16, triton.next_power_of_2(size)), "VALUE": max(16, triton.next_power_of_2(value_size))}
    if INTERPRETED:
        return {"BLOCK_Q": 32, "BLOCK_K": 32, **widths}
    return {"BLOCK_Q": 64, "BLOCK_K": 64, **widths, "num_warps": 8, "num_stages": 2}


def _tile_list(ends_D: Tensor, total: int, block: int) -> Tensor:
    """[P, 4] int32: first row, document's first row, one past its last, where its keys end (its first row: nowhere)."""
    num_documents = len(ends_D)
    ends_X = torch.cat([ends_D, ends_D.new_full((1,), total)])
    begins_X = torch.cat([ends_D.new_zeros(1), ends_D])
    counts_X = (ends_X - begins_X + block - 1) // block
    cumulated_X = counts_X.cumsum(0)
    tile_P = torch.arange(triton.cdiv(total, block) + num_documents, device=ends_D.device)
    document_P = torch.searchsorted(cumulated_X, tile_P, right=True)
    beyond_P = document_P > num_documents
    document_P = document_P.clamp(max=num_documents)
    begin_P, end_P = begins_X[document_P], ends_X[document_P]
    first_P = begin_P + (tile_P - (cumulated_X - counts_X)[document_P]) * block
    end_P = torch.where(beyond_P, 0, end_P)
    keys_end_P = torch.where(beyond_P | (document_P == num_documents), 0, end_P)
    return torch.stack([first_P, begin_P, end_P, keys_end_P], dim=1).to(torch.int32)


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_THd: Tensor, k_TGd: Tensor, v_TGe: Tensor, ends_D: Tensor, scale: float) -> Tensor:
        q_THd, k_TGd, v_TGe = q_THd.contiguous(), k_TGd.contiguous(), v_TGe.contiguous()
        (total, heads, size), (_, groups, value_size) = q_THd.shape, v_TGe.shape
        y_THe = q_THd.new_empty(total, heads, value_size)
        lse_TH = q_THd.new_empty(total, heads, dtype=torch.float32)
        tiles = _tiles(size, value_size)
        tiles_P4 = _tile_list(ends_D, total, tiles["BLOCK_Q"])
        if total:
            forward_kernel[(len(tiles_P4), heads)](
                q_THd, k_TGd, v_TGe, y_THe, lse_TH, tiles_P4, heads, groups, size, value_size, scale,
                INTERPRET=INTERPRETED, **tiles,
            )  # fmt: skip
        ctx.scale = scale
        ctx.save_for_backward(q_THd, k_TGd, v_TGe, y_THe, lse_TH, tiles_P4)
        return y_THe

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q_THd, k_TGd, v_TGe, y_THe, lse_TH, tiles_P4 = ctx.saved_tensors
        (total, heads, size), (_, groups, value_size) = q_THd.shape, v_TGe.shape
        dy_THe = grads[0].contiguous()
        delta_TH = (dy_THe.float() * y_THe.float()).sum(dim=2)
        dq_THd, dk_TGd, dv_TGe = torch.empty_like(q_THd), torch.empty_like(k_TGd), torch.empty_like(v_TGe)
        tiles = _tiles(size, value_size)
        sizes = (heads, groups, size, value_size, ctx.scale)
        if total:
            query_kernel[(len(tiles_P4), heads)](
                q_THd, k_TGd, v_TGe, dy_THe, dq_THd, lse_TH, delta_TH, tiles_P4, *sizes, INTERPRET=INTERPRETED, **tiles
            )
            key_kernel[(len(tiles_P4), groups)](
                q_THd, k_TGd, v_TGe, dy_THe, dk_TGd, dv_TGe, lse_TH, delta_TH, tiles_P4, *sizes,
                INTERPRET=INTERPRETED, **tiles,
            )  # fmt: skip
        return dq_THd, dk_TGd, dv_TGe, None, None
