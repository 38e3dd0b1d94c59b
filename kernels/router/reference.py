"""The router, step by step; autograd does the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.router.settings import SUM_FLOOR, RouterSettings, Routing


def route(logits_NE: Tensor, bias_E: Tensor | None, valid_N: Tensor | None, settings: RouterSettings) -> Routing:
    """See `kernels.router.route`. Computes in float32, in float64 for float64 logits."""
    wide_NE = logits_NE if logits_NE.dtype == torch.float64 else logits_NE.float()
    scores_NE = torch.softmax(wide_NE, dim=1) if settings.score == "softmax" else torch.sigmoid(wide_NE)
    experts_NK = choose(scores_NE.detach(), bias_E, settings.top_k)
    gates_NK = scores_NE.gather(1, experts_NK)
    if settings.renormalise:
        gates_NK = gates_NK / (gates_NK.sum(dim=1, keepdim=True) + SUM_FLOOR)
    gates_NK = gates_NK * settings.scale
    shares_NE = scores_NE if settings.score == "softmax" else scores_NE / scores_NE.sum(dim=1, keepdim=True)
    square_N = torch.logsumexp(wide_NE, dim=1) ** 2
    if valid_N is not None:
        experts_NK = experts_NK.masked_fill(~valid_N[:, None], -1)
        gates_NK = gates_NK.masked_fill(~valid_N[:, None], 0.0)
        shares_NE, square_N = shares_NE[valid_N], square_N[valid_N]
    loads_E = torch.bincount(experts_NK[experts_NK >= 0].view(-1), minlength=logits_NE.shape[1])
    count = max(len(square_N), 1)
    return Routing(experts_NK, gates_NK, loads_E, shares_NE.sum(dim=0) / count, square_N.sum() / count)


def choose(scores_NE: Tensor, bias_E: Tensor | None, top_k: int) -> Tensor:
    """Indices of the k largest biased scores, largest first, ties to the lowest index; NaN counts as -inf."""
    keys_NE = scores_NE if bias_E is None else scores_NE + bias_E.to(scores_NE.dtype)
    keys_NE = keys_NE.masked_fill(keys_NE.isnan(), -torch.inf)
    return torch.sort(keys_NE, dim=1, descending=True, stable=True).indices[:, :top_k]
