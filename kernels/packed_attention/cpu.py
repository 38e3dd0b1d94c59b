"""Packed-document attention on CPUs: torch's causal flash kernel on each document, short documents side by side.

No mask is ever built: right-padding a document under a causal mask changes nothing for its tokens. Query heads that
share a key head lie in the batch dimension, over which keys have stride 0. Value heads of another size are padded.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

SHORT = 64
"""Documents up to this length are padded to a multiple of 16 and done side by side; longer ones alone, uncopied."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Short:
    """Documents of one padded length. source [B * L] row of each place; places, rows [S]: places that hold a token."""

    length: int
    source: Tensor
    places: Tensor
    rows: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """long: (start, stop) of documents done alone; short: groups of the others; num_rows: rows in documents."""

    long: tuple[tuple[int, int], ...]
    short: tuple[Short, ...]
    num_rows: int


@lru_cache(maxsize=64)
def make_plan(ends: tuple[int, ...]) -> Plan:
    """A function of the documents' ends only."""
    documents = [(a, b) for a, b in itertools.pairwise((0, *ends)) if b > a]
    groups: dict[int, list[tuple[int, int]]] = {}
    for a, b in documents:
        if b - a <= SHORT:
            groups.setdefault(-(-(b - a) // 16) * 16, []).append((a, b))
    short = []
    for length, members in sorted(groups.items()):
        spans = np.array(members)
        rows_BL = spans[:, :1] + np.arange(length)
        real_BL = rows_BL < spans[:, 1:]
        source_BL = np.minimum(rows_BL, spans[:, 1:] - 1)
        short.append(
            Short(
                length=length,
                source=torch.from_numpy(source_BL.ravel()),
                places=torch.from_numpy(np.flatnonzero(real_BL)),
                rows=torch.from_numpy(rows_BL[real_BL]),
            )
        )
    long = tuple((a, b) for a, b in documents if b - a > SHORT)
    return Plan(long=long, short=tuple(short), num_rows=ends[-1] if ends else 0)


def packed_attention(q_THd: Tensor, k_TGd: Tensor, v_TGe: Tensor, ends_D: Tensor, scale: float) -> Tensor:
    """The CPU path of `kernels.packed_attention.packed_attention`."""
    size, value_size = q_THd.shape[2], v_TGe.shape[2]
    if size < value_size:
        q_THd, k_TGd = (functional.pad(x, (0, value_size - size)) for x in (q_THd, k_TGd))
    v_TGd = functional.pad(v_TGe, (0, size - value_size)) if size > value_size else v_TGe
    plan = make_plan(tuple(ends_D.tolist()))
    y_THd: Tensor = _PackedAttention.apply(q_THd, k_TGd, v_TGd, plan, scale)  # type: ignore[no-untyped-call]
    return y_THd[..., :value_size]


_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_THd: Tensor, k_TGd: Tensor, v_TGd: Tensor, plan: Plan, scale: float) -> Tensor:
        q_THd, k_TGd, v_TGd = q_THd.contiguous(), k_TGd.contiguous(), v_TGd.contiguous()
        groups = k_TGd.shape[1]
        y_THd = torch.empty_like(q_THd)
        y_THd[plan.num_rows :].zero_()
        sums = []
        for a, b in plan.long:
            q_rGsd = _query_view(q_THd[a:b], groups)
            k_rGsd, v_rGsd = (_key_view(x[a:b], len(q_rGsd)) for x in (k_TGd, v_TGd))
            out_rGsd, sum_rGs = _forward(q_rGsd, k_rGsd, v_rGsd, 0.0, True, scale=scale)
            _query_view(y_THd[a:b], groups).copy_(out_rGsd)
            sums.append(sum_rGs)
        for short in plan.short:
            inputs = _gather(short, q_THd, k_TGd, v_TGd)
            out_NGLd, sum_NGL = _forward(*inputs, 0.0, True, scale=scale)
            y_THd.index_copy_(0, short.rows, _token_rows(out_NGLd, short, q_THd.shape).index_select(0, short.places))
            sums.append(sum_NGL)
        ctx.plan, ctx.scale = plan, scale
        ctx.save_for_backward(q_THd, k_TGd, v_TGd, y_THd, *sums)
        return y_THd

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q_THd, k_TGd, v_TGd, y_THd, *sums = ctx.saved_tensors
        plan, groups = ctx.plan, k_TGd.shape[1]
        dy_THd = grads[0].contiguous()
        dq_THd, dk_TGd, dv_TGd = torch.empty_like(q_THd), torch.empty_like(k_TGd), torch.empty_like(v_TGd)
        for tensor in (dq_THd, dk_TGd, dv_TGd):
            tensor[plan.num_rows :].zero_()
        for (a, b), sum_rGs in zip(plan.long, sums, strict=False):
            q_rGsd, y_rGsd, dy_rGsd = (_query_view(_for_backward(x[a:b]), groups) for x in (q_THd, y_THd, dy_THd))
            k_rGsd, v_rGsd = (_key_view(_for_backward(x[a:b]), len(q_rGsd)) for x in (k_TGd, v_TGd))
            dq, dk, dv = _backward(dy_rGsd, q_rGsd, k_rGsd, v_rGsd, y_rGsd, sum_rGs, 0.0, True, scale=ctx.scale)
            _query_view(dq_THd[a:b], groups).copy_(dq)
            dk_TGd[a:b].copy_(dk.sum(dim=0).transpose(0, 1))
            dv_TGd[a:b].copy_(dv.sum(dim=0).transpose(0, 1))
        for short, sum_NGL in zip(plan.short, sums[len(plan.long) :], strict=True):
            _short_backward(short, ctx.scale, sum_NGL, (q_THd, k_TGd, v_TGd, y_THd, dy_THd), (dq_THd, dk_TGd, dv_TGd))
        return dq_THd, dk_TGd, dv_TGd, None, None


def _for_backward(x: Tensor) -> Tensor:
    """torch's bfloat16 backward is slower than its float32 one for heads of 32 and no faster for heads of 64."""
    return x.float() if x.dtype == torch.bfloat16 else x


def _query_view(x_sHd: Tensor, groups: int) -> Tensor:
    """[s, H, d] as [r, G, s, d]: query head g * r + j uses key head g."""
    s, heads, d = x_sHd.shape
    return x_sHd.view(s, groups, heads // groups, d).permute(2, 1, 0, 3)


def _key_view(x_sGd: Tensor, repeats: int) -> Tensor:
    return x_sGd.transpose(0, 1).unsqueeze(0).expand(repeats, -1, -1, -1)


def _gather(short: Short, q_THd: Tensor, *keys: Tensor) -> tuple[Tensor, ...]:
    """Queries as [B * r, G, L, d], keys and values (or outputs' like) repeated to the same shape."""
    groups = keys[0].shape[1]
    repeats = q_THd.shape[1] // groups
    parts = [_batch_queries(short, q_THd, groups)]
    for x_TGd in keys:
        x_BLGd = x_TGd.index_select(0, short.source).view(-1, short.length, groups, x_TGd.shape[2])
        x_BGLd = x_BLGd.transpose(1, 2)
        parts.append(x_BGLd.unsqueeze(1).expand(-1, repeats, -1, -1, -1).flatten(0, 1))
    return tuple(parts)


def _batch_queries(short: Short, x_THd: Tensor, groups: int) -> Tensor:
    heads, size = x_THd.shape[1:]
    x_BLGrd = x_THd.index_select(0, short.source).view(-1, short.length, groups, heads // groups, size)
    return x_BLGrd.permute(0, 3, 2, 1, 4).flatten(0, 1)


def _token_rows(x_NGLd: Tensor, short: Short, shape: torch.Size) -> Tensor:
    """[B * r, G, L, d] back to one row a place, [B * L, H, d]."""
    groups = x_NGLd.shape[1]
    repeats = shape[1] // groups
    x_BrGLd = x_NGLd.view(-1, repeats, groups, short.length, shape[2])
    return x_BrGLd.permute(0, 3, 2, 1, 4).reshape(-1, shape[1], shape[2])


def _short_backward(
    short: Short, scale: float, sum_NGL: Tensor, saved: tuple[Tensor, ...], out: tuple[Tensor, Tensor, Tensor]
) -> None:
    q_THd, k_TGd, v_TGd, y_THd, dy_THd = saved
    groups = k_TGd.shape[1]
    q, k, v = _gather(short, q_THd, k_TGd, v_TGd)
    y = _batch_queries(short, y_THd, groups)
    padded_THd = dy_THd.index_select(0, short.source)
    clean_THd = torch.zeros_like(padded_THd).index_copy_(0, short.places, padded_THd.index_select(0, short.places))
    dy = clean_THd.view(-1, short.length, groups, len(q) * short.length // len(padded_THd), q.shape[3])
    dy = dy.permute(0, 3, 2, 1, 4).flatten(0, 1)
    dq, dk, dv = _backward(dy, q, k, v, y, sum_NGL, 0.0, True, scale=scale)
    out[0].index_copy_(0, short.rows, _token_rows(dq, short, q_THd.shape).index_select(0, short.places))
    for part, target in ((dk, out[1]), (dv, out[2])):
        part_BrGLd = part.reshape(-1, q_THd.shape[1] // groups, groups, short.length, part.shape[3])
        rows = part_BrGLd.sum(dim=1).transpose(1, 2).reshape(-1, groups, part.shape[3])
        target.index_copy_(0, short.rows, rows.index_select(0, short.places))
