"""Statistics of one optimizer step, under the names of `contracts.names` (R801-2.3).

Shape letters: L layers, E experts, R virtual data-parallel ranks, T tokens, N = E * T, P parameters,
M metric modules, B sequences.
Everything a step measures goes through one list conversion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.balance import normalised
from trainer.config import TrainConfig
from trainer.detail import Detail, Named
from trainer.groups import module_of
from trainer.model import Forward, router_layers
from trainer.ranks.alone import Ranks
from trainer.router import max_violation


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Norms before the update: of every gradient, and as far as they are due of every weight and single expert."""

    grad_P: Tensor
    weight_P: Tensor | None
    detail: tuple[Named, ...]


class Statistics:
    """Names are made once; `measure` fills in the values of a step."""

    def __init__(self, config: TrainConfig, parameter_names: Sequence[str], ranks: Ranks | None = None) -> None:
        """`parameter_names` are in the order of the tensors that `norms` gets, cut as `ranks` cut them."""
        self._config, self._names, self._ranks = config, tuple(parameter_names), ranks or Ranks()
        modules = [module_of(name) for name in parameter_names]
        self._modules = tuple(dict.fromkeys(modules))
        self._module_P = torch.tensor([self._modules.index(module) for module in modules])
        layers = router_layers(config)
        self._layers = layers
        self._modules_of_mtp = [f"mtp_loss/mtp.{module}" for module in range(config.mtp.num_modules)]
        self._detail = Detail(parameter_names, layers)
        self._loads = [f"expert_load/{name}/experts.{e}" for name in layers for e in range(config.moe.num_experts)]

    def detail_is_due(self, step: int) -> bool:
        cadence = self._config.diagnostics.detail_every
        return cadence > 0 and (step + 1) % cadence == 0

    def norms_are_due(self, step: int) -> bool:
        return (step + 1) % self._config.diagnostics.norms_every == 0

    @torch.no_grad()
    def norms(self, step: int, weights: Sequence[Tensor], grads: Sequence[Tensor]) -> Norms:
        """Of the 0-based `step`; each parameter counts once, however many ranks or passes its gradient came from."""
        grad_P = self._norms_of(grads)
        is_due = self.norms_are_due(step)
        detail: list[Named] = []
        weight_P = None
        if is_due or self.detail_is_due(step):
            weight_P = self._norms_of(weights)
        if self.detail_is_due(step):
            assert weight_P is not None
            for statistic, norm_P, tensors in (("grad_norm", grad_P, grads), ("weight_norm", weight_P, weights)):
                wholes = self._ranks.whole(dict(zip(self._names, tensors, strict=True)))
                detail += [
                    self._detail.matrices(statistic, norm_P),
                    self._detail.experts(statistic, [*wholes.values()]),
                ]
        return Norms(grad_P=grad_P, weight_P=weight_P if is_due else None, detail=tuple(detail))

    @torch.no_grad()
    def measure(
        self,
        step: int,
        forward: Forward,
        norms: Norms,
        update: Mapping[str, Tensor],
        source_B: NDArray[np.int64],
        buffers: Mapping[str, Tensor],
    ) -> dict[str, float]:
        """Values of the 0-based `step`, as far as the cadences of `diagnostics` ask for them.

        `update` are the norms that each group moved.
        """
        due = self._config.diagnostics
        parts = [*self._losses(forward), (("grad_norm",), torch.linalg.vector_norm(norms.grad_P).view(1))]
        if self.norms_are_due(step):
            parts += self._norms(norms, update)
        if (step + 1) % due.routing_every == 0:
            parts += self._routing(forward)
        if (step + 1) % due.sources_every == 0:
            parts += self._sources(forward, source_B)
        if due.ranks_every and (step + 1) % due.ranks_every == 0:
            parts += [self._ranks_losses(forward)]
        if self.detail_is_due(step):
            parts += [*norms.detail, *self._detail.routers(forward, buffers)]
        names = [name for part, _ in parts for name in part]
        values: dict[str, float] = dict(zip(names, torch.cat([t for _, t in parts]).tolist(), strict=True))
        moe, num_layers = self._config.moe, len(self._layers)
        penalty = (
            moe.balance.coefficient(step) * values["balance_loss"] + moe.z_loss.coefficient(step) * values["z_loss"]
        )
        values["aux_loss_share"] = num_layers * penalty / values["loss"] if values["loss"] else 0.0
        return values

    def _norms_of(self, tensors: Sequence[Tensor]) -> Tensor:
        """[P]"""
        return self._ranks.norms(torch.stack(torch._foreach_norm([tensor.detach() for tensor in tensors])))

    def _losses(self, forward: Forward) -> Iterator[Named]:
        means = torch.stack([forward.loss.detach(), forward.lm_loss, forward.balance_L.mean(), forward.z_L.mean()])
        yield ("loss", "lm_loss", "balance_loss", "z_loss"), means
        yield self._per_layer("balance_loss"), forward.balance_L
        yield self._per_layer("z_loss"), forward.z_L
        if self._modules_of_mtp:
            yield ["mtp_loss", *self._modules_of_mtp], torch.cat([forward.mtp_K.mean().view(1), forward.mtp_K])

    def _norms(self, norms: Norms, update: Mapping[str, Tensor]) -> Iterator[Named]:
        for statistic, norm_P in (("grad_norm", norms.grad_P), ("weight_norm", norms.weight_P)):
            if norm_P is not None:
                squared_M = torch.zeros(len(self._modules)).index_add_(0, self._module_P, norm_P.square())
                yield [f"{statistic}/{module}" for module in self._modules], squared_M.sqrt()
        if norms.weight_P is not None:
            yield ("weight_norm",), torch.linalg.vector_norm(norms.weight_P).view(1)
        yield [f"update_norm/group.{group}" for group in update], torch.stack([*update.values()])

    def _routing(self, forward: Forward) -> Iterator[Named]:
        load_LE = forward.load_LRE.mean(dim=1) if forward.weight_LT is None else normalised(forward.count_LE)
        num_experts = load_LE.shape[1]
        violation_L = max_violation(load_LE)
        micro_L = max_violation(forward.load_LRE).mean(dim=1)
        yield ("max_vio", "max_vio_micro"), torch.stack([violation_L.mean(), micro_L.mean()])
        yield self._per_layer("max_vio"), violation_L
        yield self._per_layer("max_vio_micro"), micro_L
        yield self._loads, (load_LE * num_experts).view(-1)
        entropy_LT = torch.special.entr(forward.probs_LET).sum(dim=1)
        if forward.weight_LT is None:
            logits_LN = forward.logits_LET.flatten(1)
            spread_L, largest_L, entropy_L = logits_LN.std(dim=1), logits_LN.amax(dim=1), entropy_LT.mean(dim=1)
        else:
            spread_L, largest_L, entropy_L = _weighted(forward.logits_LET, entropy_LT, forward.weight_LT)
        yield self._per_layer("router_logit_std"), spread_L
        yield self._per_layer("router_logit_max"), largest_L
        yield self._per_layer("router_entropy"), entropy_L

    def _sources(self, forward: Forward, source_B: NDArray[np.int64]) -> Iterator[Named]:
        source, names = torch.from_numpy(source_B), self._config.data.source_names()
        count = torch.bincount(source, minlength=len(names))
        total = torch.zeros(len(names)).index_add_(0, source, forward.sequence_loss_B)
        yield [f"mixture/source.{name}" for name in names], count / len(source)
        present = count.nonzero().view(-1)
        yield [f"lm_loss/source.{names[i]}" for i in present.tolist()], (total / count)[present]

    def _ranks_losses(self, forward: Forward) -> Named:
        """Of the sequences of each rank: i, i + dp_size and so on."""
        dp_size = self._config.parallel.dp_size
        loss_R = forward.sequence_loss_B.view(-1, dp_size).mean(dim=0)
        return [f"lm_loss@rank={rank}" for rank in range(dp_size)], loss_R

    def _per_layer(self, statistic: str) -> list[str]:
        return [f"{statistic}/{layer}" for layer in self._layers]


def _weighted(logits_LET: Tensor, entropy_LT: Tensor, weight_LT: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Standard deviation and maximum of the logits and mean entropy over the tokens that count."""
    num_L = (weight_LT > 0).sum(dim=1)
    counts_L1T = (weight_LT > 0).unsqueeze(1)
    num_values_L = (num_L * logits_LET.shape[1]).clamp(min=2)
    mean_L11 = ((logits_LET * counts_L1T).sum(dim=(1, 2)) / num_values_L).view(-1, 1, 1)
    square_L = ((logits_LET - mean_L11).square() * counts_L1T).sum(dim=(1, 2))
    largest_L = logits_LET.masked_fill(~counts_L1T, -torch.inf).amax(dim=(1, 2))
    return (square_L / (num_values_L - 1)).sqrt(), largest_L, (entropy_LT * counts_L1T[:, 0]).sum(dim=1) / num_L
