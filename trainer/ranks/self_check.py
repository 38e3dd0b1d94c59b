"""A small computation whose numbers are fixed, done by every process at every step: it has one right result.

A machine that computes wrong values without an error (silent data corruption) hides in the loss, which is noisy and a
mean over all ranks; in this computation, which is the same everywhere, it stands apart from its peers. It says
nothing of operations that it does not do, nor of a machine that is wrong only under load or in other numbers.

Shape letters: N results, R ranks, T tokens, D width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_T, _D, _V = 32, 24, 40
_MOST = 1e6  # departure of a result that is not finite, or beyond all measure


def checked_results() -> Tensor:
    """[N] what a block's operations, their gradients and an optimizer's update come to, each tensor over its RMS."""
    weights = [_fixed(shape, phase).requires_grad_() for phase, shape in enumerate(((_V, _D), (_D, _D), (_V, _D)))]
    table_VD, mix_DD, head_VD = weights
    tokens_T = torch.arange(_T) * 7 % _V
    x_TD = functional.embedding(tokens_T, table_VD)
    x_TD = x_TD * torch.rsqrt(x_TD.square().mean(dim=1, keepdim=True) + 1e-6)
    probs_TT = (x_TD @ x_TD.t() / _D**0.5).softmax(dim=1)
    mixed_TD = x_TD + functional.silu(functional.linear(probs_TT @ x_TD, mix_DD))
    logits_TV = functional.linear(mixed_TD, head_VD)
    loss = functional.cross_entropy(logits_TV, (tokens_T + 1) % _V)
    grads = torch.autograd.grad(loss, weights)
    moved = [w.detach() - 0.1 * g / (g.square().sqrt() + g.std()) for w, g in zip(weights, grads, strict=True)]
    every = [each.detach().flatten() for each in (loss, x_TD, probs_TT, mixed_TD, logits_TV, *grads, *moved)]
    return torch.cat([each / each.square().mean().sqrt() for each in every])


def departures(results_RN: Tensor) -> Tensor:
    """[R] how far each rank's results lie from the median of all, at worst; 0 is bitwise equal."""
    finite_RN = results_RN.nan_to_num(_MOST, _MOST, -_MOST)
    return (finite_RN - finite_RN.median(dim=0).values).abs().clamp(max=_MOST).amax(dim=1)


def _fixed(shape: tuple[int, int], phase: int) -> Tensor:
    """Numbers in -1 .. 1 without a generator."""
    count = shape[0] * shape[1]
    return torch.sin(torch.arange(count, dtype=torch.float32) * 1.37 + phase).view(shape)
