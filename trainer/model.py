"""Decoder-only mixture-of-experts language model as one function of its weights.

Shape letters: B sequences (rank r owns those with index i % R == r), S positions, T = B * S tokens, D model width,
L router layers (those of the MTP modules last), E experts, R ranks, V vocabulary, K MTP modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from trainer.attention import AttentionTables, document_mask
from trainer.balance import RoutedLayers
from trainer.block import block
from trainer.config import TrainConfig
from trainer.mtp import PREFIX, joined, label_losses, teacher_losses
from trainer.norm import rms_norm
from trainer.parts import Parts
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

    def __init__(self, config: TrainConfig, parts: Parts) -> None:
        self._config = config
        self._parts = parts
        self._tables = AttentionTables.build(config.model, config.data.seq_len)
        num_layers, num_dense = config.model.num_layers, config.moe.num_dense_layers
        self._router_numbers = [*range(num_dense, num_layers + config.mtp.num_modules)]

    def forward(
        self, weights: Mapping[str, Tensor], sequences: Sequences, step: int, share: Share | None = None
    ) -> Forward:
        """`step` is 0-based and decides the penalties; without `share` the sequences are the whole step."""
        config, moe = self._config, self._config.moe
        share = share or Share.of(sequences, 1, config.mtp.num_modules)
        mask_NTS = document_mask(sequences.document_BS, self._tables)
        hidden_BSD, routings = self._main(weights, sequences.tokens_BS[:, :-1], mask_NTS)
        logits_TV = self._logits(hidden_BSD, weights, "final_norm.weight")
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
        x_BSD = self._embedded(tokens_BS, weights)
        routings = []
        for layer in range(self._config.model.num_layers):
            x_BSD, routing = self._block(x_BSD, weights, f"layers.{layer}.", mask_NTS)
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
            embedded_BSD = self._embedded(inputs_ahead(sequences, depth), weights)
            x_BSD = joined(hidden_BSD, embedded_BSD, weights, prefix, self._config.model)
            hidden_BSD, routing = self._block(x_BSD, weights, prefix, mask_NTS)
            assert routing is not None
            routings.append(routing)
            logits_TV = self._logits(hidden_BSD, weights, f"{prefix}final_norm.weight")
            targets = Targets.of(sequences, depth)
            if self._config.mtp.teacher == "labels":
                loss_T = label_losses(logits_TV, targets)
            else:
                loss_T = teacher_losses(logits_TV, main_logits_TV, depth, targets)
            losses.append(_mean(loss_T, targets, share, depth))
        return torch.stack(losses) if losses else hidden_BSD.new_zeros(0), routings

    def _block(
        self, x_BSD: Tensor, weights: Mapping[str, Tensor], prefix: str, mask_NTS: Tensor | None
    ) -> tuple[Tensor, Routing | None]:
        arguments = (x_BSD, weights, prefix, self._config, self._tables, mask_NTS)
        if not self._config.numerics.activation_checkpointing:
            return block(*arguments)
        from torch.utils.checkpoint import checkpoint  # imported where it pays

        result: tuple[Tensor, Routing | None] = checkpoint(block, *arguments, use_reentrant=False)
        return result

    def _embedded(self, tokens_BS: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        return functional.embedding(tokens_BS, weights["embedding.weight"]) * self._config.model.embedding_scale

    def _logits(self, hidden_BSD: Tensor, weights: Mapping[str, Tensor], norm: str) -> Tensor:
        return output_logits(hidden_BSD, weights, norm, self._config).view(-1, self._config.model.vocab_size)

    def _lm_loss(self, logits_TV: Tensor, sequences: Sequences, share: Share) -> tuple[Tensor, Tensor]:
        """The loss, and the mean of each sequence's labels."""
        smoothing, num_sequences = self._config.loss.label_smoothing, len(sequences.tokens_BS)
        target_T = sequences.tokens_BS[:, 1:].reshape(-1)
        loss_T = functional.cross_entropy(logits_TV, target_T, reduction="none", label_smoothing=smoothing)
        loss_BS = loss_T.detach().view(num_sequences, -1)
        if _counts_all(sequences):
            return loss_T.mean(), loss_BS.mean(dim=1)
        targets = Targets.of(sequences, 0)
        counts_BS = targets.counts_BS
        return _mean(loss_T, targets, share, 0), (loss_BS * counts_BS).sum(dim=1) / counts_BS.sum(dim=1).clamp(min=1)

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
    """[B, S, V] behind the norm of that name and the output head, which is the embedding when they are tied."""
    model = config.model
    normal_BSD = rms_norm(hidden_BSD, weights[norm], model.norm_eps)
    head = weights["embedding.weight" if model.tie_embeddings else "head.weight"]
    logits_BSV = functional.linear(normal_BSD, head)
    if model.logit_softcap:
        logits_BSV = model.logit_softcap * torch.tanh(logits_BSV / model.logit_softcap)
    return logits_BSV


def _counts_all(sequences: Sequences) -> bool:
    return sequences.document_BS is None and sequences.label_mask_BS is None


def _mean(loss_T: Tensor, targets: Targets, share: Share, depth: int) -> Tensor:
    """Mean over the labels of the step, times the number of parts."""
    chosen_T = torch.where(targets.counts_BS.reshape(-1), loss_T, 0.0)
    return chosen_T.sum() * (share.num_parts / share.num_labels_J[depth])
