"""How far each backward format is from exact gradients (RC2-8.4): the forward stays NVFP4, the backward changes."""

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


def _gradients(x: Tensor, w: Tensor, dy: Tensor, offsets: Tensor, precision: Precision) -> Tensor:
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = quantised_grouped_gemm(x, w, offsets, precision=precision)
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(y, (x, w), dy)])
