"""Muon's orthogonalised direction for a stack of matrices at once.

Shape letters: P matrices, M rows, N columns.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_A, _B, _C = 3.4445, -4.7750, 2.0315  # quintic of Jordan et al. (2024), the one torch.optim.Muon uses


def orthogonalise(x_PMN: Tensor, iterations: int, eps: float, compute: torch.dtype = torch.float32) -> Tensor:
    """Newton-Schulz iterations in `compute`: singular values end in about 0.7 to 1.2, singular vectors stay.

    Each matrix is divided by max(Frobenius norm, eps) first. One batched product serves all matrices of the stack.
    """
    is_tall = x_PMN.shape[-2] > x_PMN.shape[-1]
    x = x_PMN.transpose(-2, -1) if is_tall else x_PMN
    x = (x / torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True).clamp_(min=eps)).to(compute)
    for _ in range(iterations):
        gram = torch.bmm(x, x.transpose(-2, -1))
        polynomial = torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C)
        polynomial.diagonal(dim1=-2, dim2=-1).add_(_A)
        x = torch.bmm(polynomial, x)
    return (x.transpose(-2, -1) if is_tall else x).to(x_PMN.dtype)


def rms_scale(shape: tuple[int, ...], rms: float) -> float:
    """Factor that gives an orthogonal M x N matrix the wanted RMS (Moonlight, arXiv 2502.16982 section 2.2)."""
    return rms * math.sqrt(max(shape[-2:]))
