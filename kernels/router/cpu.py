"""The router on CPUs: scores once, a top-k on integer keys (so that ties have one answer), a closed-form gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.router.settings import SUM_FLOOR, RouterSettings, Routing


def route(logits_NE: Tensor, bias_E: Tensor | None, valid_N: Tensor | None, settings: RouterSettings) -> Routing:
    """The CPU path of `kernels.router.route`."""
    outputs = _Route.apply(logits_NE, bias_E, valid_N, settings)  # type: ignore[no-untyped-call]
    return Routing(*outputs)


class _Route(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits_NE: Tensor, bias_E: Tensor | None, valid_N: Tensor | None, settings: RouterSettings
    ) -> tuple[Tensor, ...]:
        wide_NE = logits_NE.float()
        lse_N = torch.logsumexp(wide_NE, dim=1)
        scores_NE = torch.softmax(wide_NE, dim=1) if settings.score == "softmax" else torch.sigmoid(wide_NE)
        experts_NK = choose(scores_NE, bias_E, settings.top_k)
        chosen_NK = scores_NE.gather(1, experts_NK)
        gates_NK = chosen_NK * settings.scale
        if settings.renormalise:
            gates_NK /= chosen_NK.sum(dim=1, keepdim=True) + SUM_FLOOR
        weights_N = torch.ones_like(lse_N) if valid_N is None else valid_N.to(torch.float32)
        count = max(float(weights_N.sum()), 1.0)
        square_N = lse_N.square()
        totals_N = torch.ones_like(lse_N) if settings.score == "softmax" else scores_NE.sum(dim=1)
        per_token_N = weights_N / totals_N
        if valid_N is not None:
            experts_NK.masked_fill_(~valid_N[:, None], -1)
            gates_NK.masked_fill_(~valid_N[:, None], 0.0)
            per_token_N.masked_fill_(~valid_N, 0.0)
            square_N = square_N.masked_fill(~valid_N, 0.0)
            mean_E = scores_NE.masked_fill(~valid_N[:, None], 0.0).t() @ per_token_N / count
        else:
            mean_E = scores_NE.t() @ per_token_N / count
        loads_E = torch.bincount(experts_NK[experts_NK >= 0], minlength=logits_NE.shape[1])
        ctx.settings, ctx.count = settings, count
        ctx.save_for_backward(logits_NE, scores_NE, experts_NK, lse_N, totals_N, valid_N)
        ctx.mark_non_differentiable(experts_NK, loads_E)
        return experts_NK, gates_NK, loads_E, mean_E, square_N.sum() / count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        logits_NE, scores_NE, experts_NK, lse_N, totals_N, valid_N = ctx.saved_tensors
        settings: RouterSettings = ctx.settings
        dgates_NK, dmean_E, dsquare = grads[1].float(), grads[3].float() / ctx.count, grads[4].float() / ctx.count
        places_NK = experts_NK.clamp(min=0)
        chosen_NK = scores_NE.gather(1, places_NK)
        dchosen_NK = dgates_NK * settings.scale
        if settings.renormalise:
            sum_N1 = chosen_NK.sum(dim=1, keepdim=True) + SUM_FLOOR
            dchosen_NK = (dchosen_NK - (dchosen_NK * chosen_NK).sum(dim=1, keepdim=True) / sum_N1) / sum_N1
        if settings.score == "softmax":
            dscores_NE = dmean_E.expand_as(scores_NE).scatter_add(1, places_NK, dchosen_NK)
            dlogits_NE = scores_NE * (dscores_NE - (scores_NE * dscores_NE).sum(dim=1, keepdim=True))
            shares_NE = scores_NE
        else:
            pull_N = (scores_NE @ dmean_E) / totals_N
            dscores_NE = ((dmean_E - pull_N[:, None]) / totals_N[:, None]).scatter_add_(1, places_NK, dchosen_NK)
            dlogits_NE = dscores_NE * scores_NE * (1 - scores_NE)
            shares_NE = torch.exp(logits_NE.float() - lse_N[:, None])
        dlogits_NE += (2 * dsquare * lse_N)[:, None] * shares_NE
        if valid_N is not None:
            dlogits_NE.masked_fill_(~valid_N[:, None], 0.0)
        return dlogits_NE.to(logits_NE.dtype), None, None, None


def choose(scores_NE: Tensor, bias_E: Tensor | None, top_k: int) -> Tensor:
    """As the reference's: float keys become ordered integers with the index below them, so no two are equal."""
    keys_NE = scores_NE if bias_E is None else scores_NE + bias_E.float()
    keys_NE = keys_NE.masked_fill(keys_NE.isnan(), -torch.inf) + 0.0
    bits_NE = keys_NE.view(torch.int32).to(torch.int64)
    ordered_NE = torch.where(bits_NE < 0, -(bits_NE & 0x7FFFFFFF), bits_NE)
    num_experts = keys_NE.shape[1]
    unique_NE = ordered_NE * num_experts + torch.arange(num_experts - 1, -1, -1)
    return torch.topk(unique_NE, top_k, dim=1, sorted=True).indices
