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

from kernels.cross_entropy import IGNORE, cross_entropy
from trainer.balance import RoutedLayers
from trainer.block import block
from trainer.config import ModelConfig, TrainConfig
from trainer.mtp import PREFIX, joined, label_losses, teacher_losses
from trainer.norm import rms_norm
from trainer.parts import Parts
from trainer.precision import DTYPES, computed
from trainer.ranks.alone import Ranks
from trainer.router import Routing
from trainer.targets import Sequences, Share, Targets, inputs_ahead, real_tokens

_LARGE_VOCABULARY = 2048  # from which on logits are too many for the cache


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


@dataclass(frozen=True, kw_only=True)
class Head:
    """Losses of the main head over the labels of a part; `loss` has the z-loss in it."""

    loss: Tensor
    lm_loss: Tensor
    sequence_loss_B: Tensor
    logits_TV: Tensor | None = None  # unless they were never there as a whole


def router_layers(config: TrainConfig) -> tuple[str, ...]:
    """Metric modules of the layers with a router, in the order of the L dimension."""
    main = [f"layers.{layer}" for layer in range(config.moe.num_dense_layers, config.model.num_layers)]
    return (*main, *(f"{PREFIX}{module}" for module in range(config.mtp.num_modules)))


class LanguageModel:
    """Computes losses. Weights are passed in by name (`weights.parameter_shapes` and `weights.buffer_shapes`)."""

    def __init__(self, config: TrainConfig, parts: Parts, ranks: Ranks | None = None) -> None:
        """`ranks` are the processes that compute a step together; without them this one is alone."""
        self._ranks = ranks = ranks or Ranks()
        self._tables = ranks.tables(config)
        self._config = config = ranks.local_config(config)
        self._parts = parts
        self._dtype = DTYPES[config.numerics.compute]
        self._is_chunked = chunks_logits(config)
        num_layers, num_dense = config.model.num_layers, config.moe.num_dense_layers
        self._router_numbers = [*range(num_dense, num_layers + config.mtp.num_modules)]

    def forward(
        self, weights: Mapping[str, Tensor], sequences: Sequences, step: int, share: Share | None = None
    ) -> Forward:
        """`step` is 0-based and decides the penalties; without `share` the sequences are the whole step."""
        config, moe = self._config, self._config.moe
        share = share or Share.of(sequences, 1, config.mtp.num_modules)
        sight = self._tables.sight(sequences.document_BS)
        hidden_BSD, routings = self._main(weights, sequences.inputs, sight)
        normal_BSD = self._ranks.run("final_norm.", self._final_norm, weights, hidden_BSD)
        head = self._head(weights, normal_BSD, sequences, share)
        mtp_K, more = self._mtp(weights, sequences, hidden_BSD, head.logits_TV, sight, share)
        routed = RoutedLayers.stack(self._router_numbers, routings + more, self._real(sequences), share)
        load_LRE = routed.loads(config)
        balance_L = routed.balance_losses(config, self._parts.balance_loss, load_LRE, share)
        z_L = routed.z_losses()
        loss = head.loss + moe.balance.coefficient(step) * balance_L.sum() + moe.z_loss.coefficient(step) * z_L.sum()
        if config.mtp.num_modules:
            loss = loss + config.mtp.coefficient(step) * mtp_K.mean()
        return Forward(
            loss=loss,
            lm_loss=head.lm_loss.detach(),
            sequence_loss_B=head.sequence_loss_B,
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
        self, weights: Mapping[str, Tensor], tokens_BS: Tensor, sight: Tensor | None
    ) -> tuple[Tensor, list[Routing]]:
        x_BSD = self._embedded(weights, tokens_BS)
        routings = []
        for layer in range(self._config.model.num_layers):
            x_BSD, routing = self._unit(f"layers.{layer}.", self._block, weights, x_BSD, sight)
            if routing is not None:
                routings.append(routing)
        return x_BSD, routings

    def _mtp(
        self,
        weights: Mapping[str, Tensor],
        sequences: Sequences,
        hidden_BSD: Tensor,
        main_logits_TV: Tensor | None,
        sight: Tensor | None,
        share: Share,
    ) -> tuple[Tensor, list[Routing]]:
        """[K] losses and the modules' routings."""
        losses, routings = [], []
        for module in range(self._config.mtp.num_modules):
            prefix, depth = f"{PREFIX}{module}.", module + 1
            embedded_BSD = self._embedded(weights, inputs_ahead(sequences, depth))
            hidden_BSD, routing, normal_BSD = self._unit(prefix, self._module, weights, hidden_BSD, embedded_BSD, sight)
            routings.append(routing)
            targets = Targets.of(sequences, depth)
            if self._is_chunked:
                losses.append(self._chunked(weights, normal_BSD, targets, 0.0)[0] * _scale(targets, share, depth))
                continue
            logits_TV = self._logits(weights, normal_BSD)
            if main_logits_TV is None or self._config.mtp.teacher == "labels":
                loss_T = label_losses(logits_TV, targets)
            else:
                loss_T = teacher_losses(logits_TV, main_logits_TV, depth, targets)
            losses.append(_mean(loss_T, targets, share, depth))
        return torch.stack(losses) if losses else hidden_BSD.new_zeros(0), routings

    def _unit(self, unit: str, function: Callable[..., Any], weights: Mapping[str, Tensor], *tensors: Any) -> Any:
        """`function(weights, unit, *tensors)`, where the weights of that unit are."""
        arguments = (unit, partial(_called, function, unit, self._dtype), weights, *tensors)
        if not self._config.numerics.activation_checkpointing:
            return self._ranks.run(*arguments)
        from torch.utils.checkpoint import checkpoint  # imported where it pays

        return checkpoint(self._ranks.run, *arguments, use_reentrant=False)

    def _block(
        self, weights: Mapping[str, Tensor], prefix: str, x_BSD: Tensor, sight: Tensor | None
    ) -> tuple[Tensor, Routing | None]:
        return block(x_BSD, weights, prefix, self._config, self._tables, sight, self._ranks.experts)

    def _module(
        self,
        weights: Mapping[str, Tensor],
        prefix: str,
        hidden_BSD: Tensor,
        embedded_BSD: Tensor,
        sight: Tensor | None,
    ) -> tuple[Tensor, Routing | None, Tensor]:
        """One MTP module: its residual stream, what its router decided, and what the shared head reads."""
        model = self._config.model
        x_BSD = joined(hidden_BSD, embedded_BSD, weights, prefix, model)
        x_BSD, routing = self._block(weights, prefix, x_BSD, sight)
        return x_BSD, routing, rms_norm(x_BSD, weights[f"{prefix}final_norm.weight"], model.norm_eps)

    def _final_norm(self, weights: Mapping[str, Tensor], hidden_BSD: Tensor) -> Tensor:
        return rms_norm(hidden_BSD, weights["final_norm.weight"], self._config.model.norm_eps)

    def _embedded(self, weights: Mapping[str, Tensor], tokens_BS: Tensor) -> Tensor:
        def embedded(weights: Mapping[str, Tensor], tokens_BS: Tensor) -> Tensor:
            x_BSD = functional.embedding(tokens_BS, weights["embedding.weight"]) * self._config.model.embedding_scale
            return x_BSD.to(self._dtype)

        x_BSD: Tensor = self._ranks.run("embedding.", embedded, weights, tokens_BS)
        return x_BSD

    def _head(self, weights: Mapping[str, Tensor], normal_BSD: Tensor, sequences: Sequences, share: Share) -> Head:
        """The main head's losses. A large vocabulary's logits are never there as a whole."""
        if not self._is_chunked:
            return self._whole_head(self._logits(weights, normal_BSD), sequences, share)
        targets, z_coef = Targets.of(sequences, 0), self._config.loss.head_z_coef
        total, lm_loss, loss_T = self._chunked(weights, normal_BSD, targets, z_coef)
        loss_BS = loss_T.detach().view(len(sequences.tokens_BS), -1)
        scale = _scale(targets, share, 0)
        sequence_loss_B = loss_BS.sum(dim=1) / targets.num_labels_B.clamp(min=1)
        return Head(loss=total * scale, lm_loss=lm_loss * scale, sequence_loss_B=sequence_loss_B)

    def _whole_head(self, logits_TV: Tensor, sequences: Sequences, share: Share) -> Head:
        lm_loss, sequence_loss_B = self._lm_loss(logits_TV, sequences, share)
        loss, z_coef = lm_loss, self._config.loss.head_z_coef
        if z_coef:
            loss = loss + z_coef * self._head_z(logits_TV, sequences, share)
        return Head(loss=loss, lm_loss=lm_loss, sequence_loss_B=sequence_loss_B, logits_TV=logits_TV)

    def _on_head(self, function: Callable[..., Any], weights: Mapping[str, Tensor], normal_BSD: Tensor) -> Any:
        """`function(weights, normal_BSD)` where the output head's weights are."""
        unit = "embedding." if self._config.model.tie_embeddings else "head."
        return self._ranks.run(unit, function, weights, normal_BSD)

    def _logits(self, weights: Mapping[str, Tensor], normal_BSD: Tensor) -> Tensor:
        """[T, V]"""

        def logits(weights: Mapping[str, Tensor], normal_BSD: Tensor) -> Tensor:
            return head_logits(normal_BSD, computed(weights, self._dtype), self._config.model)

        logits_BSV: Tensor = self._on_head(logits, weights, normal_BSD)
        return logits_BSV.view(-1, self._config.model.vocab_size)

    def _chunked(
        self, weights: Mapping[str, Tensor], normal_BSD: Tensor, targets: Targets, z_coef: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Mean over the labels of the part with and without the z-loss, and [T] losses, 0 where there is no label."""
        target_T = torch.where(targets.counts_BS, targets.token_BS, IGNORE).reshape(-1)

        def losses(weights: Mapping[str, Tensor], normal_BSD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            matrix_VD = computed(weights, self._dtype)[_head_name(self._config.model)]
            found = cross_entropy(normal_BSD.flatten(0, 1), matrix_VD, target_T, z_coefficient=z_coef)
            return found.total, found.cross_entropy, found.token_losses

        found: tuple[Tensor, Tensor, Tensor] = self._on_head(losses, weights, normal_BSD)
        return found

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
    logits_BSV = functional.linear(normal_BSD, weights[_head_name(model)]).float()
    if model.logit_softcap:
        logits_BSV = model.logit_softcap * torch.tanh(logits_BSV / model.logit_softcap)
    return logits_BSV


def chunks_logits(config: TrainConfig) -> bool:
    """Whether output layer and loss are one operation: a large vocabulary whose logits nothing else needs."""
    model, needs_logits = config.model, config.mtp.num_modules and config.mtp.teacher == "main_head"
    is_plain = not (model.logit_softcap or config.loss.label_smoothing or needs_logits)
    return is_plain and model.vocab_size >= _LARGE_VOCABULARY


def _head_name(model: ModelConfig) -> str:
    return "embedding.weight" if model.tie_embeddings else "head.weight"


def _called(
    function: Callable[..., Any], unit: str, dtype: torch.dtype, weights: Mapping[str, Tensor], *tensors: Any
) -> Any:
    return function(computed(weights, dtype), unit, *tensors)


def _counts_all(sequences: Sequences) -> bool:
    return sequences.document_BS is None and sequences.label_mask_BS is None


def _scale(targets: Targets, share: Share, depth: int) -> Tensor:
    """What makes the mean over the part's labels one over those of the step, times the number of parts."""
    return targets.counts_BS.sum() * (share.num_parts / share.num_labels_J[depth])


def _mean(loss_T: Tensor, targets: Targets, share: Share, depth: int) -> Tensor:
    """Mean over the labels of the step, times the number of parts."""
    chosen_T = torch.where(targets.counts_BS.reshape(-1), loss_T, 0.0)
    return chosen_T.sum() * (share.num_parts / share.num_labels_J[depth])
