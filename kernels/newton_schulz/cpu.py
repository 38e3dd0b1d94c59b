"""Newton-Schulz on CPUs: all matrices of a stack in three batched products a step."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.newton_schulz.settings import COEFFICIENTS, EPSILON


def newton_schulz(update_EMN: Tensor, steps: int, compute: torch.dtype) -> Tensor:
    """The CPU path of `kernels.newton_schulz.newton_schulz`."""
    a, b, c = COEFFICIENTS
    tall = update_EMN.shape[1] > update_EMN.shape[2]
    x_Emn = update_EMN.mT if tall else update_EMN
    norms_E = torch.linalg.vector_norm(x_Emn.to(compute), dim=(1, 2)).clamp(min=EPSILON)
    x_Emn = (x_Emn.to(compute) / norms_E[:, None, None]).contiguous()
    for _ in range(steps):
        gram_Emm = torch.bmm(x_Emn, x_Emn.mT)
        polynomial_Emm = torch.baddbmm(gram_Emm, gram_Emm, gram_Emm, beta=b, alpha=c)
        x_Emn = torch.baddbmm(x_Emn, polynomial_Emm, x_Emn, beta=a)
    return (x_Emn.mT if tall else x_Emn).to(update_EMN.dtype)
