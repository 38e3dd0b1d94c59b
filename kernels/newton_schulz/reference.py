"""Newton-Schulz, one matrix after another, as torch.optim.Muon does it."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.newton_schulz.settings import COEFFICIENTS, EPSILON


def newton_schulz(update_EMN: Tensor, steps: int, compute: torch.dtype) -> Tensor:
    """See `kernels.newton_schulz.newton_schulz`."""
    return torch.stack([_one(update_MN, steps, compute) for update_MN in update_EMN]).to(update_EMN.dtype)


def _one(update_MN: Tensor, steps: int, compute: torch.dtype) -> Tensor:
    a, b, c = COEFFICIENTS
    x = update_MN.to(compute)
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=EPSILON)
    for _ in range(steps):
        gram = x @ x.t()
        polynomial = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.addmm(x, polynomial, x, beta=a)
    return x.t() if tall else x
