# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""The router in Triton: one program takes a block of tokens with all experts, one pass forward and one backward.

Loads are summed by integer atomics, the two means by one partial sum a program: nothing depends on the order of
programs. Softmax and logsumexp share the row's maximum.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.backend import require
from kernels.interpreter import INTERPRETED
from kernels.router.settings import SUM_FLOOR, RouterSettings, Routing

MOST_EXPERTS = 4096
"""A row of experts is one block of registers."""


@triton.jit
def _scores(logits, col_ok, SIGMOID: tl.constexpr):
    """Scores, softmax shares and logsumexp of each row."""
    masked = tl.where(col_ok[None, :], logits, float("-inf"))
    top = tl.max(masked, axis=1)
    powers = tl.where(col_ok[None, :], tl.exp(masked - top[:, None]), 0.0)
    total = tl.sum(powers, axis=1)
    shares = powers / total[:, None]
    scores = tl.where(col_ok[None, :], tl.sigmoid(logits), 0.0) if SIGMOID else shares
    return scores, shares, top + tl.log(total)


@triton.jit
def forward_kernel(
    logits_ptr, bias_ptr, valid_ptr, experts_ptr, gates_ptr, loads_ptr, means_ptr, squares_ptr,
    num_tokens, num_experts, row, scale, floor,
    BIAS: tl.constexpr, VALID: tl.constexpr, SIGMOID: tl.constexpr, RENORMALISE: tl.constexpr, TOP_K: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """Everything for BLOCK_N tokens; means and squares are partial sums of this program."""
    pid = tl.program_id(0)
    rows = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.arange(0, BLOCK_E)
    row_ok, col_ok = rows < num_tokens, cols < num_experts
    live = row_ok
    if VALID:
        live = row_ok & (tl.load(valid_ptr + rows, mask=row_ok, other=0) != 0)
    ptrs = logits_ptr + rows.to(tl.int64)[:, None] * row + cols[None, :]
    logits = tl.load(ptrs, mask=row_ok[:, None] & col_ok[None, :], other=0.0).to(tl.float32)
    scores, _, lse = _scores(logits, col_ok, SIGMOID)
    keys = scores
    if BIAS:
        keys = scores + tl.load(bias_ptr + cols, mask=col_ok, other=0.0)[None, :]
    keys = tl.where(keys == keys, keys, float("-inf"))
    free = tl.broadcast_to(col_ok[None, :], (BLOCK_N, BLOCK_E))
    counts = tl.zeros((BLOCK_E,), tl.int32)
    total = tl.zeros((BLOCK_N,), tl.float32) + floor
    for choice in range(TOP_K):
        best = tl.max(tl.where(free, keys, float("-inf")), axis=1)
        expert = tl.min(tl.where(free & (keys == best[:, None]), cols[None, :], BLOCK_E), axis=1)
        picked = cols[None, :] == expert[:, None]
        free = free & ~picked
        counts += tl.sum((picked & live[:, None]).to(tl.int32), axis=0)
        score = tl.sum(tl.where(picked, scores, 0.0), axis=1)
        total += score
        places = rows.to(tl.int64) * TOP_K + choice
        tl.store(experts_ptr + places, tl.where(live, expert, -1).to(tl.int64), mask=row_ok)
        tl.store(gates_ptr + places, tl.where(live, score * scale, 0.0), mask=row_ok)
    if RENORMALISE:
        tl.debug_barrier()
        for choice in range(TOP_K):
            places = rows.to(tl.int64) * TOP_K + choice
            gate = tl.load(gates_ptr + places, mask=row_ok, other=0.0)
            tl.store(gates_ptr + places, tl.where(live, gate / total, 0.0), mask=row_ok)
    tl.atomic_add(loads_ptr + cols, counts, mask=col_ok)
    if SIGMOID:
        scores = scores / tl.sum(scores, axis=1)[:, None]
    means = tl.sum(tl.where(live[:, None], scores, 0.0), axis=0)
    tl.store(means_ptr + pid * num_experts + cols, means, mask=col_ok)
    tl.store(squares_ptr + pid, tl.sum(tl.where(live, lse * lse, 0.0), axis=0))


@triton.jit
def backward_kernel(
    logits_ptr, valid_ptr, experts_ptr, dgates_ptr, dmean_ptr, dsquare_ptr, dlogits_ptr,
    num_tokens, num_experts, row, scale, floor,
    VALID: tl.constexpr, SIGMOID: tl.constexpr, RENORMALISE: tl.constexpr, TOP_K: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """d loss / d logits (float32); dmean and dsquare are already divided by the number of tokens."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.arange(0, BLOCK_E)
    row_ok, col_ok = rows < num_tokens, cols < num_experts
    live = row_ok
    if VALID:
        live = row_ok & (tl.load(valid_ptr + rows, mask=row_ok, other=0) != 0)
    ok = row_ok[:, None] & col_ok[None, :]
    ptrs = logits_ptr + rows.to(tl.int64)[:, None] * row + cols[None, :]
    scores, shares, lse = _scores(tl.load(ptrs, mask=ok, other=0.0).to(tl.float32), col_ok, SIGMOID)
    chosen = tl.zeros((BLOCK_N, BLOCK_E), tl.float32)
    dgates = tl.zeros((BLOCK_N, BLOCK_E), tl.float32)
    for choice in range(TOP_K):
        places = rows.to(tl.int64) * TOP_K + choice
        picked = cols[None, :] == tl.load(experts_ptr + places, mask=row_ok, other=-1)[:, None]
        dgate = tl.load(dgates_ptr + places, mask=row_ok, other=0.0) * scale
        chosen = tl.where(picked, scores, chosen)
        dgates = tl.where(picked, dgate[:, None], dgates)
    if RENORMALISE:
        total = tl.sum(chosen, axis=1) + floor
        inner = tl.sum(dgates * chosen, axis=1) / total
        dgates = tl.where(chosen > 0, (dgates - inner[:, None]) / total[:, None], 0.0)
    dmean = tl.load(dmean_ptr + cols, mask=col_ok, other=0.0)[None, :]
    if SIGMOID:
        sums = tl.sum(scores, axis=1)[:, None]
        pull = tl.sum(scores * dmean, axis=1)[:, None] / sums
        dlogits = ((dmean - pull) / sums + dgates) * scores * (1 - scores)
    else:
        dscores = dmean + dgates
        dlogits = scores * (dscores - tl.sum(scores * dscores, axis=1)[:, None])
    dlogits += (2 * tl.load(dsquare_ptr) * lse)[:, None] * shares
    out = dlogits_ptr + rows.to(tl.int64)[:, None] * num_experts + cols[None, :]
    tl.store(out, tl.where(live[:, None], dlogits, 0.0), mask=ok)


def route(logits_NE: Tensor, bias_E: Tensor | None, valid_N: Tensor | None, settings: RouterSettings) -> Routing:
    """The Triton path of `kernels.router.route`. Raises UserInputError on more than MOST_EXPERTS experts."""
    num_experts = logits_NE.shape[1]
    message = f"router: the triton backend does not serve {num_experts} experts"
    require(num_experts <= MOST_EXPERTS, message, f"use at most {MOST_EXPERTS}, or the reference backend")
    return Routing(*_Route.apply(logits_NE, bias_E, valid_N, settings))


def _blocks(num_experts: int) -> dict[str, int]:
    width = max(16, triton.next_power_of_2(num_experts))
    return {"BLOCK_N": 16 if INTERPRETED else max(1, 1024 // width), "BLOCK_E": width}


class _Route(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits_NE: Tensor, bias_E: Tensor | None, valid_N: Tensor | None, settings: RouterSettings
    ) -> tuple[Tensor, ...]:
        logits_NE = logits_NE if logits_NE.stride(1) == 1 else logits_NE.contiguous()
        (num_tokens, num_experts), top_k = logits_NE.shape, settings.top_k
        blocks = _blocks(num_experts)
        programs = max(triton.cdiv(num_tokens, blocks["BLOCK_N"]), 1)
        experts_NK = logits_NE.new_empty(num_tokens, top_k, dtype=torch.int64)
        gates_NK = logits_NE.new_empty(num_tokens, top_k, dtype=torch.float32)
        loads_E = logits_NE.new_zeros(num_experts, dtype=torch.int32)
        means_PE = logits_NE.new_empty(programs, num_experts, dtype=torch.float32)
        squares_P = logits_NE.new_empty(programs, dtype=torch.float32)
        forward_kernel[(programs,)](
            logits_NE, logits_NE if bias_E is None else bias_E.float(), logits_NE if valid_N is None else valid_N,
            experts_NK, gates_NK, loads_E, means_PE, squares_P,
            num_tokens, num_experts, logits_NE.stride(0), settings.scale, SUM_FLOOR,
            BIAS=bias_E is not None, VALID=valid_N is not None, SIGMOID=settings.score == "sigmoid",
            RENORMALISE=settings.renormalise, TOP_K=top_k, **blocks,
        )  # fmt: skip
        count = logits_NE.new_tensor(float(num_tokens)) if valid_N is None else valid_N.sum()
        count = count.clamp(min=1).float()
        ctx.settings = settings
        ctx.save_for_backward(logits_NE, experts_NK, valid_N, count)
        ctx.mark_non_differentiable(experts_NK)
        loads_E = loads_E.to(torch.int64)
        ctx.mark_non_differentiable(loads_E)
        return experts_NK, gates_NK, loads_E, means_PE.sum(dim=0) / count, squares_P.sum() / count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        logits_NE, experts_NK, valid_N, count = ctx.saved_tensors
        settings: RouterSettings = ctx.settings
        num_tokens, num_experts = logits_NE.shape
        dlogits_NE = logits_NE.new_empty(num_tokens, num_experts, dtype=torch.float32)
        blocks = _blocks(num_experts)
        if num_tokens:
            backward_kernel[(triton.cdiv(num_tokens, blocks["BLOCK_N"]),)](
                logits_NE, logits_NE if valid_N is None else valid_N, experts_NK, grads[1].float().contiguous(),
                (grads[3] / count).float().contiguous(), (grads[4] / count).float(), dlogits_NE,
                num_tokens, num_experts, logits_NE.stride(0), settings.scale, SUM_FLOOR,
                VALID=valid_N is not None, SIGMOID=settings.score == "sigmoid", RENORMALISE=settings.renormalise,
                TOP_K=settings.top_k, **blocks,
            )  # fmt: skip
        return dlogits_NE.to(logits_NE.dtype), None, None, None
