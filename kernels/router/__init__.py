"""The router: logits to experts, gates, loads, z-loss and balance statistics in one pass.

Shape letters: N tokens, E experts, K experts chosen by a token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.backend import FLOATS, Backend, Operation, require
from kernels.router import cpu, reference
from kernels.router.settings import RouterSettings, Routing

__all__ = ["RouterSettings", "Routing", "balance_loss", "max_violation", "route"]

_OPERATION = Operation(
    name="router",
    reference=reference.route,
    cpu=cpu.route,
    triton="kernels.router.triton:route",
    dtypes={Backend.CPU: FLOATS, Backend.TRITON: FLOATS},
)


def route(
    logits_NE: Tensor,
    settings: RouterSettings,
    *,
    bias_E: Tensor | None = None,
    valid_N: Tensor | None = None,
    backend: Backend | str | None = None,
) -> Routing:
    """Route each token; see Routing. Scores are float32 whatever the logits' dtype.

    `bias_E` shifts the choice only (aux-loss-free balancing, arXiv 2408.15664). Tokens where `valid_N` is False are
    padding: expert -1, gate 0, in no statistic, no gradient. A token with a NaN logit gets distinct experts and makes
    mean_scores and z_loss NaN; its gates are NaN too, but with sigmoid scores only where it had to take that expert.
    Raises UserInputError on impossible shapes.
    """
    require(logits_NE.dim() == 2, f"router: logits {tuple(logits_NE.shape)} are not [N, E]", "pass [N, E]")
    num_tokens, num_experts = logits_NE.shape
    fits = 1 <= settings.top_k <= num_experts
    require(fits, f"router: top_k {settings.top_k} of {num_experts} experts", "choose 1 to the number of experts")
    require(bias_E is None or bias_E.shape == (num_experts,), "router: bias is not [E]", "pass one bias an expert")
    masked = valid_N is None or (valid_N.shape == (num_tokens,) and valid_N.dtype == torch.bool)
    require(masked, "router: valid is not a boolean [N]", "pass one flag a token")
    return _OPERATION.choose(logits_NE, backend)(logits_NE, bias_E, valid_N, settings)


def balance_loss(loads_E: Tensor, mean_scores_E: Tensor) -> Tensor:
    """E * sum of load share * mean score: 1 when either is uniform (Switch; arXiv 2501.11873 for its scopes).

    For the global-batch scope pass loads summed over the batch and average the result over its parts.
    """
    shares_E = loads_E.to(mean_scores_E.dtype) / loads_E.sum().clamp(min=1)
    return len(loads_E) * (shares_E * mean_scores_E).sum()


def max_violation(loads_E: Tensor) -> Tensor:
    """MaxVio = (max load - mean load) / mean load (arXiv 2408.15664, eq. 4); 0 without tokens."""
    mean = loads_E.double().mean()
    return torch.where(mean > 0, (loads_E.max() - mean) / mean.clamp(min=1e-30), 0.0)
