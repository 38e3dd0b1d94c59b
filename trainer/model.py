"""Decoder-only mixture-of-experts language model as one function of its weights.

Shape letters: B sequences of the step (rank r owns those with index i % R == r), S positions, T = B * S tokens,
D model width, L layers, E experts, R ranks, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from trainer.attention import AttentionTables, attention
from trainer.config import TrainConfig
from trainer.expert_kernels import kernel_experts
from trainer.experts import Assignments, routed_experts, shared_experts
from trainer.norm import rms_norm
from trainer.parts import Parts
from trainer.router import Routing, by_rank, expert_load, route, z_loss


@dataclass(frozen=True, kw_only=True)
class Forward:
    """Losses of one step, with what the statistics need. Only `loss` carries the auxiliary terms."""

    loss: Tensor
    lm_loss: Tensor
    sequence_loss_B: Tensor
    balance_L: Tensor
    z_L: Tensor
    logits_LET: Tensor
    probs_LET: Tensor
    load_LRE: Tensor


class LanguageModel:
    """Computes losses. Weights are passed in by name (`weights.parameter_shapes`)."""

    def __init__(self, config: TrainConfig, parts: Parts) -> None:
        self._config = config
        self._parts = parts
        self._tables = AttentionTables.build(config.model, config.data.seq_len)

    def forward(self, weights: Mapping[str, Tensor], tokens_BS: Tensor, step: int) -> Forward:
        """`tokens_BS` holds one token more than `seq_len`; `step` is 0-based and decides the penalties."""
        hidden_TD, routings = self._hidden(weights, tokens_BS[:, :-1])
        logits_TV = self._logits(hidden_TD, weights)
        smoothing = self._config.loss.label_smoothing
        target_T = tokens_BS[:, 1:].reshape(-1)
        token_loss_T = functional.cross_entropy(logits_TV, target_T, reduction="none", label_smoothing=smoothing)
        lm_loss = token_loss_T.mean()
        logits_LET = torch.stack([routing.logits_ET for routing in routings])
        probs_LET = torch.stack([routing.probs_ET for routing in routings])
        load_LRE = self._load(routings)
        balance_L, z_L = self._balance(probs_LET, load_LRE), z_loss(logits_LET)
        moe = self._config.moe
        loss = lm_loss + moe.balance.coefficient(step) * balance_L.sum() + moe.z_loss.coefficient(step) * z_L.sum()
        if self._config.loss.head_z_coef:
            loss = loss + self._config.loss.head_z_coef * logits_TV.logsumexp(dim=-1).square().mean()
        return Forward(
            loss=loss,
            lm_loss=lm_loss.detach(),
            sequence_loss_B=token_loss_T.detach().view(len(tokens_BS), -1).mean(dim=1),
            balance_L=balance_L.detach(),
            z_L=z_L.detach(),
            logits_LET=logits_LET.detach(),
            probs_LET=probs_LET.detach(),
            load_LRE=load_LRE,
        )

    def _hidden(self, weights: Mapping[str, Tensor], tokens_BS: Tensor) -> tuple[Tensor, list[Routing]]:
        model = self._config.model
        x_BSD = functional.embedding(tokens_BS, weights["embedding.weight"]) * model.embedding_scale
        routings = []
        for layer in range(model.num_layers):
            prefix = f"layers.{layer}."
            normal = rms_norm(x_BSD, weights[f"{prefix}attn_norm.weight"], model.norm_eps)
            mixed = attention(normal, weights, f"{prefix}attn.", model, self._tables)
            x_BSD = x_BSD.add(mixed, alpha=model.residual_scale)
            normal = rms_norm(x_BSD, weights[f"{prefix}moe_norm.weight"], model.norm_eps)
            mixed_TD, routing = self._experts(normal.view(-1, model.d_model), weights, prefix)
            x_BSD = x_BSD.add(mixed_TD.view_as(x_BSD), alpha=model.residual_scale)
            routings.append(routing)
        normal = rms_norm(x_BSD, weights["final_norm.weight"], model.norm_eps)
        return normal.view(-1, model.d_model), routings

    def _experts(self, x_TD: Tensor, weights: Mapping[str, Tensor], prefix: str) -> tuple[Tensor, Routing]:
        moe, numerics = self._config.moe, self._config.numerics
        router_input = x_TD.bfloat16().float() if numerics.router_input == "bfloat16" else x_TD
        routing = route(router_input, weights, f"{prefix}router.", moe)
        gate, up, down = (weights[f"{prefix}experts.{name}"] for name in ("gate", "up", "down"))
        if numerics.experts.products == "torch":
            pairs = Assignments.sort(routing.choice_KT, routing.chosen_ET)
            out_TD = routed_experts(x_TD, routing.weight_KT, pairs, gate, up, down)
        else:
            out_TD = kernel_experts(x_TD, routing.weight_KT, routing.choice_KT, (gate, up, down), numerics.experts)
        if moe.num_shared_experts:
            out_TD = out_TD + shared_experts(
                x_TD, *(weights[f"{prefix}shared_experts.{name}"] for name in ("gate", "up", "down"))
            )
        return out_TD, routing

    def _logits(self, hidden_TD: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        model = self._config.model
        logits_TV = functional.linear(hidden_TD, weights["embedding.weight" if model.tie_embeddings else "head.weight"])
        if model.logit_softcap:
            logits_TV = model.logit_softcap * torch.tanh(logits_TV / model.logit_softcap)
        return logits_TV

    def _load(self, routings: Sequence[Routing]) -> Tensor:
        chosen_LET = torch.stack([routing.chosen_ET for routing in routings])
        config = self._config
        return expert_load(chosen_LET, config.moe.top_k, config.parallel.dp_size, config.data.seq_len)

    def _balance(self, probs_LET: Tensor, load_LRE: Tensor) -> Tensor:
        config, balance_loss = self._config, self._parts.balance_loss
        probs_LRNE = by_rank(probs_LET, config.parallel.dp_size, config.data.seq_len)
        layers = enumerate(zip(probs_LRNE, load_LRE, strict=True))
        return torch.stack([balance_loss(layer, *of_layer, config.moe.balance) for layer, of_layer in layers])
