"""Losses and loads over all routers of a forward pass: which tokens count, and over which ranks.

Shape letters: L router layers, E experts, T tokens (ordered sequence, data-parallel rank, position), R ranks
(data-parallel times context-parallel), N tokens of one rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import TrainConfig
from trainer.parts import BalanceLoss
from trainer.router import Routing, by_rank, expert_load, z_loss
from trainer.targets import Share


@dataclass(frozen=True, kw_only=True)
class RoutedLayers:
    """What all routers decided in one pass. Without `weight_LT` every token counts the same."""

    layers: tuple[int, ...]  # numbers of the layers, as a balance loss is told them
    logits_LET: Tensor
    probs_LET: Tensor
    chosen_LET: Tensor  # 1.0 where the token goes to the expert; 0.0 everywhere for padding
    weight_LT: Tensor | None  # 0 for padding; the mean over the parts of a step of its mean is 1

    @classmethod
    def stack(
        cls, layers: Sequence[int], routings: Sequence[Routing], real_LT: Tensor | None, share: Share
    ) -> RoutedLayers:
        """`real_LT` is True for tokens that are no padding; the last layers are those of the MTP modules."""
        chosen_LET = torch.stack([routing.chosen_ET for routing in routings])
        weight_LT = None
        if real_LT is not None:
            chosen_LET = chosen_LET * real_LT.unsqueeze(1)
            num_main = len(layers) - (len(share.num_real_J) - 1)
            num_real_L = torch.cat([share.num_real_J[:1].expand(num_main), share.num_real_J[1:]])
            weight_LT = real_LT * (share.num_parts * real_LT.shape[1] / num_real_L.unsqueeze(1))
        return cls(
            layers=tuple(layers),
            logits_LET=torch.stack([routing.logits_ET for routing in routings]),
            probs_LET=torch.stack([routing.probs_ET for routing in routings]),
            chosen_LET=chosen_LET,
            weight_LT=weight_LT,
        )

    def z_losses(self) -> Tensor:
        """[L]."""
        return z_loss(self.logits_LET, self.weight_LT)

    def counts(self) -> Tensor:
        """[L, E] tokens that each expert got, as exact floats."""
        return self.chosen_LET.sum(dim=2)

    def loads(self, config: TrainConfig) -> Tensor:
        """[L, R, E] fractions of each rank's assignments."""
        spread = (config.parallel.dp_size, config.data.seq_len, config.parallel.cp_size)
        if self.weight_LT is None:
            return expert_load(self.chosen_LET, config.moe.top_k, *spread)
        count_LRE = by_rank(self.chosen_LET, *spread).sum(dim=2)
        return count_LRE / count_LRE.sum(dim=-1, keepdim=True).clamp_(min=1.0)

    def balance_losses(self, config: TrainConfig, loss: BalanceLoss, load_LRE: Tensor, share: Share) -> Tensor:
        """[L]. With scope "global" the load is that of the whole step, however it is split; it carries no gradient."""
        probs_LET = self.probs_LET if self.weight_LT is None else self.probs_LET * self.weight_LT.unsqueeze(1)
        spread = (config.parallel.dp_size, config.data.seq_len, config.parallel.cp_size)
        probs_LRNE = by_rank(probs_LET, *spread)
        if config.moe.balance.scope == "global":
            load_LRE = self._global_load(load_LRE, share)
        layers = zip(self.layers, probs_LRNE, load_LRE, strict=True)
        return torch.stack([loss(*layer, config.moe.balance) for layer in layers])

    def _global_load(self, load_LRE: Tensor, share: Share) -> Tensor:
        if share.load_LE is not None:
            return share.load_LE.unsqueeze(1).expand_as(load_LRE)
        if self.weight_LT is None and share.summed is None:
            return load_LRE  # ranks of one size: the balance loss takes their mean
        return normalised(share.total(self.counts())).unsqueeze(1).expand_as(load_LRE)


def normalised(count_LE: Tensor) -> Tensor:
    """Fractions of all assignments; sums to 1 over the experts."""
    return count_LE / count_LE.sum(dim=-1, keepdim=True).clamp(min=1.0)


def moved_choice_biases(
    buffers: Mapping[str, Tensor], count_LE: Tensor, rate: float, *, only_mtp: bool
) -> dict[str, Tensor]:
    """b + rate * sign(mean count - count) for every router (Wang et al., arXiv 2408.15664 algorithm 1).

    `count_LE` are the real tokens of a whole optimizer step, in the order of `buffers`.
    """
    moved = dict(buffers)
    for (name, bias_E), count_E in zip(buffers.items(), count_LE[: len(buffers)], strict=True):
        if name.startswith("mtp.") or not only_mtp:
            moved[name] = bias_E + rate * torch.sign(count_E.sum() - count_E * len(count_E))
    return moved
