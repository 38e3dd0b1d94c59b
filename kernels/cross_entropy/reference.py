"""Output layer and loss with the logits written out whole."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.cross_entropy.settings import IGNORE, Loss


def cross_entropy(hidden_TD: Tensor, weight_VD: Tensor, targets_T: Tensor, z_coefficient: float) -> Loss:
    """See `kernels.cross_entropy.cross_entropy`. Computes in float32, in float64 for float64 inputs."""
    wide = torch.float64 if hidden_TD.dtype == torch.float64 else torch.float32
    counted_T = targets_T != IGNORE
    logits_TV = hidden_TD.to(wide) @ weight_VD.to(wide).t()
    lse_T = torch.logsumexp(logits_TV, dim=1)
    targets_T1 = targets_T.clamp(min=0).unsqueeze(1)
    losses_T = torch.where(counted_T, lse_T - logits_TV.gather(1, targets_T1).squeeze(1), 0.0)
    squares_T = torch.where(counted_T, lse_T**2, 0.0)
    count = counted_T.sum().clamp(min=1)
    mean, z_loss = losses_T.sum() / count, squares_T.sum() / count
    return Loss(mean + z_coefficient * z_loss, mean.detach(), z_loss.detach(), losses_T.detach())
