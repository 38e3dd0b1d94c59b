"""What the choice of formats does, as functions of a seed (RC2-8.4).

`gradient_error`  how far each backward format is from exact gradients; the forward stays NVFP4
`log_prob_gap`    how far a trainer's log-probabilities are from its sampler's when their forward formats differ
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.quantised_gemm import Form, Precision, quantised_grouped_gemm


@dataclass(frozen=True, kw_only=True)
class GradientError:
    """cosine with, and norm of the difference to, the gradients of the same product with a bf16 backward."""

    cosine: float
    relative: float


def gradient_error(form: Form, *, seed: int, rows: int = 256, inner: int = 128, outer: int = 96) -> GradientError:
    """Error of both gradients together, for Gaussian rows over four experts."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inner, generator=generator)
    w = torch.randn(4, inner, outer, generator=generator) / inner**0.5
    dy = torch.randn(rows, outer, generator=generator)
    offsets = torch.tensor([rows // 3, rows // 2, rows // 2, rows], dtype=torch.int32)
    exact, rounded = (_gradients(x, w, dy, offsets, Precision(backward=f)) for f in ("bf16", form))
    cosine = torch.nn.functional.cosine_similarity(exact, rounded, dim=0)
    return GradientError(cosine=float(cosine), relative=float((rounded - exact).norm() / exact.norm()))


def log_prob_gap(sampler: Form, trainer: Form, *, seed: int, rows: int = 64, vocabulary: int = 128) -> float:
    """Mean absolute gap of sampled tokens' log-probabilities; the trainer sees other rows beside the sampler's.

    A policy of one expert product, its logits in bf16.
    """
    generator = torch.Generator().manual_seed(seed)
    x, others = torch.randn(rows, 96, generator=generator), 9 * torch.randn(2, rows, 96, generator=generator)
    w = torch.randn(2, 96, vocabulary, generator=generator) / 96**0.5
    offsets = torch.tensor([rows + rows // 2, 2 * rows], dtype=torch.int32)
    sampled, trained = (
        torch.log_softmax(
            quantised_grouped_gemm(torch.cat([x, other]), w, offsets, precision=Precision(forward=form))[:rows], dim=1
        )
        for form, other in ((sampler, others[0]), (trainer, others[1]))
    )
    tokens = torch.multinomial(sampled.exp(), 1, generator=generator)
    return float((sampled.gather(1, tokens) - trained.gather(1, tokens)).abs().mean())


def _gradients(x: Tensor, w: Tensor, dy: Tensor, offsets: Tensor, precision: Precision) -> Tensor:
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = quantised_grouped_gemm(x, w, offsets, precision=precision)
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(y, (x, w), dy)])
