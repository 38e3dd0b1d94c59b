# mypy: disable-error-code="import-untyped,import-not-found,unused-ignore,no-untyped-call"
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Output layer and loss on GPUs: chunks of logits by cuBLAS, softmax, loss and logit gradient in one Triton kernel.

The kernel reads a row of float32 logits twice and leaves the gradient in its place (online softmax, arXiv 1805.02867).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.cross_entropy.settings import IGNORE, Loss
from kernels.interpreter import INTERPRETED


@triton.jit
def loss_kernel(
    logits_ptr, targets_ptr, losses_ptr, lse_ptr, count_ptr, width, row_stride, z_coefficient,
    GRADIENT: tl.constexpr, IGNORE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row: its loss and logsumexp; with GRADIENT d total / d logits replaces the logits."""
    row = tl.program_id(0).to(tl.int64)
    base = logits_ptr + row * row_stride
    target = tl.load(targets_ptr + row)
    counted = target != IGNORE
    # Before the first reduction: its barriers keep this load ahead of every store of the second loop.
    chosen = tl.load(base + tl.where(counted, target, 0))
    top = tl.full((), float("-inf"), tl.float32)
    mass = tl.zeros((), tl.float32)
    for first in range(0, width, BLOCK):
        cols = first + tl.arange(0, BLOCK)
        logits = tl.load(base + cols, mask=cols < width, other=float("-inf"))
        peak = tl.maximum(top, tl.max(logits, axis=0))
        mass = mass * tl.exp(top - peak) + tl.sum(tl.exp(logits - peak), axis=0)
        top = peak
    lse = top + tl.log(mass)
    tl.store(losses_ptr + row, tl.where(counted, lse - chosen, 0.0))
    tl.store(lse_ptr + row, tl.where(counted, lse, 0.0))
    if GRADIENT:
        count = tl.load(count_ptr)
        scale = (1.0 + 2.0 * z_coefficient * lse) / count
        for first in range(0, width, BLOCK):
            cols = first + tl.arange(0, BLOCK)
            logits = tl.load(base + cols, mask=cols < width, other=float("-inf"))
            gradient = tl.exp(logits - lse) * scale - tl.where(cols == target, 1.0 / count, 0.0)
            tl.store(base + cols, tl.where(counted, gradient, 0.0), mask=cols < width)


def cross_entropy(hidden_TD: Tensor, weight_VD: Tensor, targets_T: Tensor, z_coefficient: float) -> Loss:
    """The Triton path of `kernels.cross_entropy.cross_entropy`."""
    needs_grad = torch.is_grad_enabled() and (hidden_TD.requires_grad or weight_VD.requires_grad)
    return Loss(*_CrossEntropy.apply(hidden_TD, weight_VD, targets_T, z_coefficient, needs_grad))


def _logits(hidden_cD: Tensor, weight_VD: Tensor) -> Tensor:
    """float32 logits; on a GPU bf16 products are summed and stored in float32."""
    if hidden_cD.is_cuda and hidden_cD.dtype == torch.bfloat16:
        return torch.mm(hidden_cD, weight_VD.t(), out_dtype=torch.float32)
    return hidden_cD.float() @ weight_VD.t().float()


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, targets_T: Tensor, z_coefficient: float, needs_grad: bool
    ) -> tuple[Tensor, ...]:
        count = (targets_T != IGNORE).sum().clamp(min=1).float()
        losses_T = torch.empty(len(targets_T), dtype=torch.float32, device=hidden_TD.device)
        lse_T = torch.empty_like(losses_T)
        dhidden_TD = torch.empty_like(hidden_TD) if needs_grad else None
        dweight_VD = torch.zeros_like(weight_VD, dtype=torch.float32) if needs_grad else None
        vocabulary = len(weight_VD)
        rows = 8 if INTERPRETED else max(128, (256 << 20) // (4 * vocabulary))
        block = min(triton.next_power_of_2(vocabulary), 4096)
        for start in range(0, len(targets_T), rows):
            part = slice(start, start + rows)
            logits_cV = _logits(hidden_TD[part], weight_VD)
            loss_kernel[(len(logits_cV),)](
                logits_cV, targets_T[part], losses_T[part], lse_T[part], count, vocabulary, logits_cV.stride(0),
                float(z_coefficient), GRADIENT=needs_grad, IGNORE=IGNORE, BLOCK=block,
            )  # fmt: skip
            if dhidden_TD is not None and dweight_VD is not None:
                dlogits_cV = logits_cV.to(hidden_TD.dtype)
                dhidden_TD[part] = dlogits_cV @ weight_VD
                dweight_VD += dlogits_cV.t() @ hidden_TD[part]
        mean, z_loss = losses_T.sum() / count, lse_T.square().sum() / count
        ctx.save_for_backward(dhidden_TD, None if dweight_VD is None else dweight_VD.to(weight_VD.dtype))
        ctx.mark_non_differentiable(losses_T)
        return mean + z_coefficient * z_loss, mean, z_loss, losses_T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dhidden_TD, dweight_VD = ctx.saved_tensors
        return dhidden_TD * grads[0], dweight_VD * grads[0], None, None, None
