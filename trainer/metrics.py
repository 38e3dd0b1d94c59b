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

from trainer.config import SOURCES, TrainConfig
from trainer.groups import module_of
from trainer.model import Forward
from trainer.router import max_violation

Named = tuple[Sequence[str], Tensor]


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Norms of every gradient and weight before the update (none when not due), and of each group's update."""

    grad_P: Tensor
    weight_P: Tensor | None
    update: Mapping[str, Tensor]


class Statistics:
    """Names are made once; `measure` fills in the values of a step."""

    def __init__(self, config: TrainConfig, parameter_names: Sequence[str]) -> None:
        self._config = config
        modules = [module_of(name) for name in parameter_names]
        self._modules = tuple(dict.fromkeys(modules))
        self._module_P = torch.tensor([self._modules.index(module) for module in modules])
        layers = [f"layers.{layer}" for layer in range(config.model.num_layers)]
        self._layers = layers
        self._loads = [f"expert_load/{name}/experts.{e}" for name in layers for e in range(config.moe.num_experts)]

    @torch.no_grad()
    def measure(self, step: int, forward: Forward, norms: Norms, source_B: NDArray[np.int64]) -> dict[str, float]:
        """Values of the 0-based `step`, as far as the cadences of `diagnostics` ask for them."""
        due = self._config.diagnostics
        parts = [*self._losses(forward), (("grad_norm",), torch.linalg.vector_norm(norms.grad_P).view(1))]
        if (step + 1) % due.norms_every == 0:
            parts += self._norms(norms)
        if (step + 1) % due.routing_every == 0:
            parts += self._routing(forward)
        if (step + 1) % due.sources_every == 0:
            parts += self._sources(forward, source_B)
        names = [name for part, _ in parts for name in part]
        values: dict[str, float] = dict(zip(names, torch.cat([t for _, t in parts]).tolist(), strict=True))
        moe, num_layers = self._config.moe, len(self._layers)
        penalty = (
            moe.balance.coefficient(step) * values["balance_loss"] + moe.z_loss.coefficient(step) * values["z_loss"]
        )
        values["aux_loss_share"] = num_layers * penalty / values["loss"] if values["loss"] else 0.0
        return values

    def _losses(self, forward: Forward) -> Iterator[Named]:
        means = torch.stack([forward.loss.detach(), forward.lm_loss, forward.balance_L.mean(), forward.z_L.mean()])
        yield ("loss", "lm_loss", "balance_loss", "z_loss"), means
        yield self._per_layer("balance_loss"), forward.balance_L
        yield self._per_layer("z_loss"), forward.z_L

    def _norms(self, norms: Norms) -> Iterator[Named]:
        for statistic, norm_P in (("grad_norm", norms.grad_P), ("weight_norm", norms.weight_P)):
            if norm_P is not None:
                squared_M = torch.zeros(len(self._modules)).index_add_(0, self._module_P, norm_P.square())
                yield [f"{statistic}/{module}" for module in self._modules], squared_M.sqrt()
        if norms.weight_P is not None:
            yield ("weight_norm",), torch.linalg.vector_norm(norms.weight_P).view(1)
        yield [f"update_norm/group.{group}" for group in norms.update], torch.stack([*norms.update.values()])

    def _routing(self, forward: Forward) -> Iterator[Named]:
        load_LE = forward.load_LRE.mean(dim=1)
        num_experts = load_LE.shape[1]
        violation_L = max_violation(load_LE)
        micro_L = max_violation(forward.load_LRE).mean(dim=1)
        yield ("max_vio", "max_vio_micro"), torch.stack([violation_L.mean(), micro_L.mean()])
        yield self._per_layer("max_vio"), violation_L
        yield self._per_layer("max_vio_micro"), micro_L
        yield self._loads, (load_LE * num_experts).view(-1)
        logits_LN = forward.logits_LET.flatten(1)
        yield self._per_layer("router_logit_std"), logits_LN.std(dim=1)
        yield self._per_layer("router_logit_max"), logits_LN.amax(dim=1)
        entropy_LET = torch.special.entr(forward.probs_LET)
        yield self._per_layer("router_entropy"), entropy_LET.sum(dim=1).mean(dim=1)

    def _sources(self, forward: Forward, source_B: NDArray[np.int64]) -> Iterator[Named]:
        source = torch.from_numpy(source_B)
        count = torch.bincount(source, minlength=len(SOURCES))
        total = torch.zeros(len(SOURCES)).index_add_(0, source, forward.sequence_loss_B)
        yield [f"mixture/source.{name}" for name in SOURCES], count / len(source)
        present = count.nonzero().view(-1)
        yield [f"lm_loss/source.{SOURCES[i]}" for i in present.tolist()], (total / count)[present]

    def _per_layer(self, statistic: str) -> list[str]:
        return [f"{statistic}/{layer}" for layer in self._layers]
