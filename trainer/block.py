"""One transformer block as functions of its weights: attention, then routed experts or one dense SwiGLU.

Shape letters: B sequences, S positions, T = B * S tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from trainer.attention import Attending, attention
from trainer.config import TrainConfig
from trainer.expert_kernels import kernel_experts
from trainer.experts import Assignments, routed_experts, shared_experts
from trainer.norm import rms_norm
from trainer.router import Routing, route

_MATRICES = ("gate", "up", "down")
RoutedSum = Callable[[Tensor, Routing, Mapping[str, Tensor], str, TrainConfig], Tensor]


def local_experts(
    x_TD: Tensor, routing: Routing, weights: Mapping[str, Tensor], prefix: str, config: TrainConfig
) -> Tensor:
    """[T, D] what the routed experts of a block add; `weights` holds all of them."""
    gate, up, down = (weights[f"{prefix}experts.{name}"] for name in _MATRICES)
    numerics = config.numerics.experts
    if numerics.products == "torch":
        pairs = Assignments.sort(routing.choice_KT, routing.chosen_ET)
        return routed_experts(x_TD, routing.weight_KT, pairs, gate, up, down)
    return kernel_experts(x_TD, routing.weight_KT, routing.choice_KT, (gate, up, down), numerics)


def block(
    x_BSD: Tensor,
    weights: Mapping[str, Tensor],
    prefix: str,
    config: TrainConfig,
    tables: Attending,
    sight: Tensor | None,
    experts: RoutedSum = local_experts,
) -> tuple[Tensor, Routing | None]:
    """The residual stream behind the block, and what its router decided (None for a dense block).

    `sight` is what `tables` made of the rows' documents; None is plain causal attention. `experts` says where experts
    are.
    """
    model = config.model
    normal_BSD = rms_norm(x_BSD, weights[f"{prefix}attn_norm.weight"], model.norm_eps)
    mixed_BSD = attention(normal_BSD, weights, f"{prefix}attn.", model, tables, sight)
    return feed_forward(x_BSD.add(mixed_BSD, alpha=model.residual_scale), weights, prefix, config, experts)


def feed_forward(
    x_BSD: Tensor,
    weights: Mapping[str, Tensor],
    prefix: str,
    config: TrainConfig,
    experts: RoutedSum = local_experts,
) -> tuple[Tensor, Routing | None]:
    """The second half of a block. It is dense when `weights` has a dense matrix for it."""
    model = config.model
    normal_TD = rms_norm(x_BSD, weights[f"{prefix}moe_norm.weight"], model.norm_eps).view(-1, model.d_model)
    routing = None
    if f"{prefix}dense.gate" in weights:
        out_TD = shared_experts(normal_TD, *(weights[f"{prefix}dense.{name}"] for name in _MATRICES))
    else:
        out_TD, routing = _experts(normal_TD, weights, prefix, config, experts)
    return x_BSD.add(out_TD.view_as(x_BSD), alpha=model.residual_scale), routing


def _experts(
    x_TD: Tensor, weights: Mapping[str, Tensor], prefix: str, config: TrainConfig, experts: RoutedSum
) -> tuple[Tensor, Routing]:
    router_input = x_TD.bfloat16().float() if config.numerics.router_input == "bfloat16" else x_TD.float()
    routing = route(router_input, weights, f"{prefix}router.", config.moe)
    out_TD = experts(x_TD, routing, weights, prefix, config)
    if config.moe.num_shared_experts:
        out_TD = out_TD + shared_experts(x_TD, *(weights[f"{prefix}shared_experts.{name}"] for name in _MATRICES))
    return out_TD, routing
