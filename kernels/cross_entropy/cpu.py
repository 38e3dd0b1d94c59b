"""Output layer and loss on CPUs, chunk by chunk: logits, loss and both gradients of a chunk before the next one.

Gradients are taken in the forward pass (as Liger-Kernel does) and only scaled in the backward pass, so there are three
products as without chunks and nothing is computed twice. The largest buffer is one chunk of logits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels import mkl
from kernels.cross_entropy.settings import IGNORE, Loss

_CHUNK_BYTES = 8 << 20
"""Size of a float32 chunk of logits: it should stay in the cache between the products and the softmax."""


_MIN_ROWS = 128
"""Each chunk reads and writes the whole weight gradient: fewer rows would not pay for that."""


def cross_entropy(hidden_TD: Tensor, weight_VD: Tensor, targets_T: Tensor, z_coefficient: float) -> Loss:
    """The CPU path of `kernels.cross_entropy.cross_entropy`."""
    needs_grad = torch.is_grad_enabled() and (hidden_TD.requires_grad or weight_VD.requires_grad)
    outputs = _CrossEntropy.apply(hidden_TD, weight_VD, targets_T, z_coefficient, needs_grad)  # type: ignore[no-untyped-call]
    return Loss(*outputs)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, targets_T: Tensor, z_coefficient: float, needs_grad: bool
    ) -> tuple[Tensor, ...]:
        hidden_TD, weight_VD = hidden_TD.contiguous(), weight_VD.contiguous()
        counted_T = targets_T != IGNORE
        count, all_counted = max(int(counted_T.sum()), 1), bool(counted_T.all())
        losses_T = torch.empty(len(targets_T), dtype=torch.float32)
        lse_T = torch.empty_like(losses_T)
        dhidden_TD = torch.empty_like(hidden_TD) if needs_grad else None
        dweight_VD = torch.zeros(weight_VD.shape, dtype=torch.float32) if needs_grad else None
        rows = max(_MIN_ROWS, _CHUNK_BYTES // (4 * len(weight_VD)) // 16 * 16)
        buffer_CV = torch.empty(min(rows, len(targets_T)), len(weight_VD), dtype=torch.float32)
        for start in range(0, len(targets_T), rows):
            part = slice(start, start + rows)
            logits_cV = buffer_CV[: len(targets_T[part])]
            product(hidden_TD[part], weight_VD.t(), logits_cV)
            targets_c1 = targets_T[part].clamp(min=0).unsqueeze(1)
            chosen_c1 = logits_cV.gather(1, targets_c1)
            lse_c1, mass_c1 = _exponentiate(logits_cV)
            lse_T[part], losses_T[part] = lse_c1.squeeze(1), (lse_c1 - chosen_c1).squeeze(1)
            if dhidden_TD is None or dweight_VD is None:
                continue
            logits_cV.mul_((1 + 2 * z_coefficient * lse_c1).div_(mass_c1.mul_(count)))
            logits_cV.scatter_add_(1, targets_c1, torch.full_like(lse_c1, -1.0 / count))
            if not all_counted:
                logits_cV.masked_fill_(~counted_T[part].unsqueeze(1), 0.0)
            dlogits_cV = logits_cV.to(hidden_TD.dtype)
            torch.mm(dlogits_cV, weight_VD, out=dhidden_TD[part])
            product(dlogits_cV.t(), hidden_TD[part], dweight_VD, add=True)
        losses_T.masked_fill_(~counted_T, 0.0)
        squares_T = lse_T.square().masked_fill_(~counted_T, 0.0)
        mean, z_loss = losses_T.sum() / count, squares_T.sum() / count
        ctx.save_for_backward(dhidden_TD, None if dweight_VD is None else dweight_VD.to(weight_VD.dtype))
        ctx.mark_non_differentiable(losses_T)
        return mean + z_coefficient * z_loss, mean, z_loss, losses_T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dhidden_TD, dweight_VD = ctx.saved_tensors
        return dhidden_TD * grads[0], dweight_VD * grads[0], None, None, None


def _exponentiate(logits_cV: Tensor) -> tuple[Tensor, Tensor]:
    """logsumexp [c, 1] and the sum [c, 1] of exp(logit - largest logit), which replaces the logits."""
    top_c1 = logits_cV.amax(dim=1, keepdim=True)
    mass_c1 = torch.exp(logits_cV.sub_(top_c1), out=logits_cV).sum(dim=1, keepdim=True)
    return mass_c1.log().add_(top_c1), mass_c1


def product(a_MK: Tensor, b_KN: Tensor, out_MN: Tensor, *, add: bool = False) -> None:
    """out = a @ b or out += a @ b into float32, whatever the operands' dtype."""
    if a_MK.dtype == torch.float32:
        torch.addmm(out_MN, a_MK, b_KN, beta=1.0, out=out_MN) if add else torch.mm(a_MK, b_KN, out=out_MN)
    elif mkl.bf16_available():
        mkl.product(a_MK, b_KN, out_MN, add=add)
    elif add:
        out_MN += a_MK @ b_KN
    else:
        out_MN.copy_(a_MK @ b_KN)
