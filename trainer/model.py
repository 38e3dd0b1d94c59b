"""Decoder-only mixture-of-experts language model as one function of its weights.

Shape letters: B sequences (rank r owns those with index i % R == r), S positions, T = B * S tokens, D model width,
L router layers (those of the MTP modules last), E experts, R ranks, V vocabulary, K MTP modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trainer.attention import document_mask
from trainer.balance import RoutedLayers
from trainer.block import block
from trainer.config import ModelConfig, TrainConfig
from trainer.mtp import PREFIX, joined, label_losses, teacher_losses
from trainer.norm import rms_norm
from trainer.parts import Parts
from trainer.ranks.alone import Ranks
from trainer.router import Routing
from trainer.targets import Sequences, Share, Targets, inputs_ahead, real_tokens


@dataclass(frozen=True, kw_only=True)
class Forward:
    """Losses of a part of a step, with what the statistics need. Only `loss` carries the auxiliary terms."""

    loss: Tensor
    lm_loss: Tensor
    sequence_loss_B: Tensor
    mtp_K: Tensor
    balance_L: Tensor
    z_L: Tensor
    logits_LET: Tensor
    probs_LET: Tensor
    weight_LT: Tensor | None  # of the tokens in the routers' statistics; None: all equal
    load_LRE: Tensor
    count_LE: Tensor


def router_layers(config: TrainConfig) -> tuple[str, ...]:
    """Metric modules of the layers with a router, in the order of the L dimension."""
    main = [f"layers.{layer}" for layer in range(config.moe.num_dense_layers, config.model.num_layers)]
    return (*main, *(f"{PREFIX}{module}" for module in range(config.mtp.num_modules)))


class LanguageModel:
    """Computes losses. Weights are passed in by name (`weights.parameter_shapes` and `weights.buffer_shapes`)."""

    def __init__(self, config: TrainConfig, parts: Parts, ranks: Ranks | None = None) -> None:
        """`ranks` are the processes that compute a step together; without them this one is alone."""
        self._ranks = ranks = ranks or Ranks()
        self._tables = ranks.tables(config.model, config.data.seq_len)
        self._config = config = ranks.local_config(config)
        self._parts = parts
        num_layers, num_dense = config.model.num_layers, config.moe.num_dense_layers
        self._router_numbers = [*range(num_dense, num_layers + config.mtp.num_modules)]

    def forward(
        self, weights: Mapping[str, Tensor], sequences: Sequences, step: int, share: Share | None = None
    ) -> Forward:
        """`step` is 0-based and decides the penalties; without `share` the sequences are the whole step."""
        config, moe = self._config, self._config.moe
        share = share or Share.of(sequences, 1, config.mtp.num_modules)
        mask_NTS = document_mask(sequences.document_BS, self._tables)
        hidden_BSD, routings = self._main(weights, sequences.inputs, mask_NTS)
        normal_BSD = self._ranks.run("final_norm.", self._final_norm, weights, hidden_BSD)
        logits_TV = self._logits(weights, normal_BSD)
        lm_loss, sequence_loss_B = self._lm_loss(logits_TV, sequences, share)
        mtp_K, more = self._mtp(weights, sequences, hidden_BSD, logits_TV, mask_NTS, share)
        routed = RoutedLayers.stack(self._router_numbers, routings + more, self._real(sequences), share)
        load_LRE = routed.loads(config)
        balance_L = routed.balance_losses(config, self._parts.balance_loss, load_LRE, share)
        z_L = routed.z_losses()
        loss = lm_loss + moe.balance.coefficient(step) * balance_L.sum() + moe.z_loss.coefficient(step) * z_L.sum()
        if config.mtp.num_modules:
            loss = loss + config.mtp.coefficient(step) * mtp_K.mean()
        if config.loss.head_z_coef:
            loss = loss + config.loss.head_z_coef * self._head_z(logits_TV, sequences, share)
        return Forward(
            loss=loss,
            lm_loss=lm_loss.detach(),
            sequence_loss_B=sequence_loss_B,
            mtp_K=mtp_K.detach(),
            balance_L=balance_L.detach(),
            z_L=z_L.detach(),
            logits_LET=routed.logits_LET.detach(),
            probs_LET=routed.probs_LET.detach(),
            weight_LT=routed.weight_LT,
            load_LRE=load_LRE,
            count_LE=routed.counts(),
        )

    def _main(
        self, weights: Mapping[str, Tensor], tokens_BS: Tensor, mask_NTS: Tensor | None
    ) -> tuple[Tensor, list[Routing]]:
        x_BSD = self._embedded(weights, tokens_BS)
        routings = []
        for layer in range(self._config.model.num_layers):
            x_BSD, routing = self._unit(f"layers.{layer}.", self._block, weights, x_BSD, mask_NTS)
            if routing is not None:
                routings.append(routing)
        return x_BSD, routings

    def _mtp(
        self,
        weights: Mapping[str, Tensor],
        sequences: Sequences,
        hidden_BSD: Tensor,
        main_logits_TV: Tensor,
        mask_NTS: Tensor | None,
        share: Share,
    ) -> tuple[Tensor, list[Routing]]:
        """[K] losses and the modules' routings."""
        losses, routings = [], []
        for module in range(self._config.mtp.num_modules):
            prefix, depth = f"{PREFIX}{module}.", module + 1
            embedded_BSD = self._embedded(weights, inputs_ahead(sequences, depth))
            hidden_BSD, routing, normal_BSD = self._unit(
                prefix, self._module, weights, hidden_BSD, embedded_BSD, mask_NTS
            )
            routings.append(routing)
            logits_TV = self._logits(weights, normal_BSD)
            targets = Targets.of(sequences, depth)
            if self._config.mtp.teacher == "labels":
                loss_T = label_losses(logits_TV, targets)
            else:
                loss_T = teacher_losses(logits_TV, main_logits_TV, depth, targets)
            losses.append(_mean(loss_T, targets, share, depth))
        return torch.stack(losses) if losses else hidden_BSD.new_zeros(0), routings

    def _unit(self, unit: str, function: Callable[..., Any], weights: Mapping[str, Tensor], *tensors: Any) -> Any:
        """`function(weights, unit, *tensors)`, where the weights of that unit are."""
        arguments = (unit, partial(_called, function, unit), weights, *tensors)
        if not self._config.numerics.activation_checkpointing:
            return self._ranks.run(*arguments)
        from torch.utils.checkpoint import checkpoint  # imported where it pays

        return checkpoint(self._ranks.run, *arguments, use_reentrant=False)

    def _block(
        self, weights: Mapping[str, Tensor], prefix: str, x_BSD: Tensor, mask_NTS: Tensor | None
    ) -> tuple[Tensor, Routing | None]:
        return block(x_BSD, weights, prefix, self._config, self._tables, mask_NTS, self._ranks.experts)

    def _module(
        self,
        weights: Mapping[str, Tensor],
        prefix: str,
        hidden_BSD: Tensor,
        embedded_BSD: Tensor,
        mask_NTS: Tensor | None,
    ) -> tuple[Tensor, Routing | None, Tensor]:
        """One MTP module: its residual stream, what its router decided, and what the shared head reads."""
        model = self._config.model
        x_BSD = joined(hidden_BSD, embedded_BSD, weights, prefix, model)
        x_BSD, routing = self._block(weights, prefix, x_BSD, mask_NTS)
        return x_BSD, routing, rms_norm(x_BSD, weights[f"{prefix}final_norm.weight"], model.norm_eps)

    def _final_norm(self, weights: Mapping[str, Tensor], hidden_BSD: Tensor) -> Tensor:
        return rms_norm(hidden_BSD, weights["final_norm.weight"], self._config.model.norm_eps)

    def _embedded(self, weights: Mapping[str, Tensor], tokens_BS: Tensor) -> Tensor:
        def embedded(weights: Mapping[str, Tensor], tokens_BS: Tensor) -> Tensor:
            return functional.embedding(tokens_BS, weights["embedding.weight"]) * self._config.model.embedding_scale

        x_BSD: Tensor = self._ranks.run("embedding.", embedded, weights, tokens_BS)
        return x_BSD

    def _logits(self, weights: Mapping[str, Tensor], normal_BSD: Tensor) -> Tensor:
        """[T, V]"""

        def logits(weights: Mapping[str, Tensor], normal_BSD: Tensor) -> Tensor:
            return head_logits(normal_BSD, weights, self._config.model)

        unit = "embedding." if self._config.model.tie_embeddings else "head."
        logits_BSV: Tensor = self._ranks.run(unit, logits, weights, normal_BSD)
        return logits_BSV.view(-1, self._config.model.vocab_size)

    def _lm_loss(self, logits_TV: Tensor, sequences: Sequences, share: Share) -> tuple[Tensor, Tensor]:
        """The loss, and what the own positions add to the mean of each sequence's labels."""
        smoothing, num_sequences = self._config.loss.label_smoothing, len(sequences.tokens_BS)
        target_T = sequences.own(sequences.tokens_BS[:, 1:]).reshape(-1)
        loss_T = functional.cross_entropy(logits_TV, target_T, reduction="none", label_smoothing=smoothing)
        loss_BS = loss_T.detach().view(num_sequences, -1)
        if _counts_all(sequences):
            return loss_T.mean(), loss_BS.sum(dim=1) / (sequences.tokens_BS.shape[1] - 1)
        targets = Targets.of(sequences, 0)
        sequence_loss_B = (loss_BS * targets.counts_BS).sum(dim=1) / targets.num_labels_B.clamp(min=1)
        return _mean(loss_T, targets, share, 0), sequence_loss_B

    def _head_z(self, logits_TV: Tensor, sequences: Sequences, share: Share) -> Tensor:
        square_T = logits_TV.logsumexp(dim=-1).square()
        return square_T.mean() if _counts_all(sequences) else _mean(square_T, Targets.of(sequences, 0), share, 0)

    def _real(self, sequences: Sequences) -> Tensor | None:
        """[L, T] True for the tokens a layer's router is to balance; None when that is all of them."""
        modules = self._config.mtp.num_modules
        if sequences.document_BS is None and not modules:
            return None
        main = real_tokens(sequences).reshape(1, -1).expand(len(self._router_numbers) - modules, -1)
        ahead = [Targets.of(sequences, depth + 1).real_BS.reshape(1, -1) for depth in range(modules)]
        return torch.cat([main, *ahead])


def output_logits(hidden_BSD: Tensor, weights: Mapping[str, Tensor], norm: str, config: TrainConfig) -> Tensor:
    """[B, S, V] behind the norm of that name and the output head."""
    return head_logits(rms_norm(hidden_BSD, weights[norm], config.model.norm_eps), weights, config.model)


def head_logits(normal_BSD: Tensor, weights: Mapping[str, Tensor], model: ModelConfig) -> Tensor:
    """[B, S, V] of the output head, which is the embedding when they are tied."""
    logits_BSV = functional.linear(normal_BSD, weights["embedding.weight" if model.tie_embeddings else "head.weight"])
    if model.logit_softcap:
        logits_BSV = model.logit_softcap * torch.tanh(logits_BSV / model.logit_softcap)
    return logits_BSV


def _called(function: Callable[..., Any], unit: str, weights: Mapping[str, Tensor], *tensors: Any) -> Any:
    return function(weights, unit, *tensors)


def _counts_all(sequences: Sequences) -> bool:
    return sequences.document_BS is None and sequences.label_mask_BS is None


def _mean(loss_T: Tensor, targets: Targets, share: Share, depth: int) -> Tensor:
    """Mean over the labels of the step, times the number of parts."""
    chosen_T = torch.where(targets.counts_BS.reshape(-1), loss_T, 0.0)
    return chosen_T.sum() * (share.num_parts / share.num_labels_J[depth])
