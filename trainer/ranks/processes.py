"""A training over real processes: FSDP2 over all of them, experts and sequences spread among neighbours.

Losses, gradients, weights and statistics are those of one process that simulates the ranks, up to rounding.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from trainer.attention import Attending
from trainer.block import local_experts
from trainer.config import TrainConfig
from trainer.mtp import PREFIX
from trainer.ranks.alone import Ranks
from trainer.ranks.context import ContextTables
from trainer.ranks.dispatch import dispatched_experts
from trainer.ranks.mesh import Mesh, Span
from trainer.ranks.self_check import checked_results, departures
from trainer.ranks.units import Units
from trainer.router import Routing
from trainer.stopwatch import Computing
from trainer.targets import Sequences, Share
from trainer.weights import Shapes, parameter_shapes

if TYPE_CHECKING:
    from trainer.model import Forward
    from trainer.training import TrainingState

_MEANS = {"loss", "lm_loss", "mtp_K", "balance_L", "z_L"}
_TOKENS = {"logits_LET": 2, "probs_LET": 2, "weight_LT": 1}  # which dimension is T
_EXPERTS = ".experts."


class ProcessRanks(Ranks):
    """One of `mesh.size` processes, which have joined the default process group."""

    def __init__(self, config: TrainConfig) -> None:
        self._mesh = Mesh.of(config.parallel)
        self._rank = dist.get_rank()
        self._first = config.parallel.ranks()[0]  # of the process that started the others
        self._stopwatch: Computing | None = None
        self.count = self._mesh.size
        self._dp_rank, self._cp_rank = divmod(self._rank, self._mesh.cp_size)
        self._peers = self._group(self._mesh.expert_peers())
        self._replicas = self._group(self._mesh.expert_replicas())
        self._context = self._group(self._mesh.context_peers())
        self._hosts = _hosts(config.parallel.ranks())
        self._everywhere = DeviceMesh("cpu", torch.arange(self.count))
        self._shapes: Shapes = {}
        self._spans: dict[str, list[Span]] = {}
        self._seq_len = 0
        self._units: Units | None = None

    def begin(self, config: TrainConfig, clock: Callable[[], float]) -> None:
        is_told = self._mesh.ep_size == self._mesh.cp_size == 1  # else ranks wait for each other while they compute
        self._stopwatch = Computing(clock) if is_told else None
        self._shapes, self._seq_len = parameter_shapes(config.model, config.moe, config.mtp), config.data.seq_len
        self._spans = {
            name: self._mesh.spans(shape[0], is_expert=self._is_spread(name)) for name, shape in self._shapes.items()
        }

    def announce(self, order: str) -> None:
        if self._rank == self._first:
            dist.broadcast_object_list([order], src=self._first)

    def next_order(self) -> str:
        """What the first process announces next."""
        said: list[Any] = [None]
        dist.broadcast_object_list(said, src=self._first)
        return str(said[0])

    def shared(self, state: TrainingState | None) -> TrainingState | None:
        said = [state]
        dist.broadcast_object_list(said, src=self._first)
        return said[0]

    def local_config(self, config: TrainConfig) -> TrainConfig:
        alone = config.parallel.model_copy(update={"dp_size": 1, "cp_size": 1})
        data = config.data.model_copy(update={"seq_len": config.data.seq_len // self._mesh.cp_size})
        return config.model_copy(update={"parallel": alone, "data": data})

    def tables(self, config: TrainConfig) -> Attending:
        if self._mesh.cp_size == 1:
            return super().tables(config)
        return ContextTables.cut(config.model, config.data.seq_len, self._mesh, self._cp_rank, self._context)

    def share(self, sequences: Sequences, config: TrainConfig) -> Share:
        return replace(super().share(sequences, config), summed=self.total)

    def mine(self, sequences: Sequences) -> Sequences:
        def rows(x_BS: Tensor | None) -> Tensor | None:
            return None if x_BS is None else x_BS[self._dp_rank :: self._mesh.dp_size].contiguous()

        columns = None
        if self._mesh.cp_size > 1:
            columns = self._mesh.columns(self._cp_rank, sequences.tokens_BS.shape[1] - 1)
        tokens_BS = rows(sequences.tokens_BS)
        assert tokens_BS is not None
        return Sequences(
            tokens_BS=tokens_BS,
            document_BS=rows(sequences.document_BS),
            label_mask_BS=rows(sequences.label_mask_BS),
            columns=columns,
        )

    def total(self, tensor: Tensor) -> Tensor:
        total = tensor.detach().clone()
        dist.all_reduce(total)
        return total

    def joined(self, forward: Forward) -> Forward:
        values = {field.name: getattr(forward, field.name) for field in fields(forward)}
        for name, value in values.items():
            if value is None:
                continue
            if name in _MEANS:
                values[name] = self.total(value) / self.count
            elif name == "count_LE":
                values[name] = self.total(value)
            elif name == "load_LRE":
                values[name] = torch.cat(self._all(value), dim=1)
            elif name == "sequence_loss_B":
                by_rank = torch.stack(self._all(value)).view(self._mesh.dp_size, self._mesh.cp_size, -1)
                values[name] = by_rank.sum(dim=1).t().reshape(-1)
            else:
                dim = _TOKENS[name]
                every = torch.cat(self._all(value), dim=dim)
                values[name] = every.index_select(dim, self._mesh.token_places(every.shape[dim], self._seq_len))
        return replace(forward, **values)

    def hold(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        replicas = DeviceMesh.from_group(self._replicas, "cpu")
        own = {name: self._expert_part(name, weight) for name, weight in weights.items()}
        self._units = Units(own, self._unit_of, lambda unit: replicas if unit.endswith(_EXPERTS) else self._everywhere)
        return self._units.cuts()

    def publish(self, weights: Mapping[str, Tensor]) -> None:
        for name, cut in self._held().cuts().items():
            cut.copy_(weights[name].detach())

    def cut(self, name: str, whole: Tensor) -> Tensor:
        start, stop = self._spans[name][self._rank]
        return whole[start:stop].clone()

    def whole_shape(self, name: str, cut: Tensor) -> tuple[int, ...]:
        return self._shapes[name]

    def whole(self, cuts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if not cuts:
            return {}
        flat = torch.cat([cut.detach().reshape(-1) for cut in cuts.values()])
        sizes = [self._size(cuts, process) for process in range(self.count)]
        padded = flat.new_zeros(max(sizes))
        padded[: len(flat)] = flat
        parts = [part[:size] for part, size in zip(self._all(padded), sizes, strict=True)]
        found = {name: cut.new_empty(self._shapes[name]) for name, cut in cuts.items()}
        for process, part in enumerate(parts):
            begin = 0
            for name, whole in found.items():
                start, stop = self._spans[name][process]
                target = whole[start:stop]
                target.copy_(part[begin : begin + target.numel()].view_as(target))
                begin += target.numel()
        return found

    def norms(self, norm_P: Tensor) -> Tensor:
        return self.total(norm_P.square()).sqrt()

    def run(self, unit: str, function: Callable[..., Any], weights: Mapping[str, Tensor], *tensors: Any) -> Any:
        timed = self._stopwatch.timed(function) if self._stopwatch else function
        return self._held().run(unit, timed, weights, *tensors)

    def hosts(self) -> tuple[str, ...]:
        return self._hosts

    def computing_s(self) -> tuple[float, ...]:
        if self._stopwatch is None:
            return ()
        return tuple(torch.cat(self._all(torch.tensor([self._stopwatch.taken()]))).tolist())

    def self_check(self) -> tuple[float, ...]:
        return tuple(departures(torch.stack(self._all(checked_results()))).tolist())

    def experts(
        self, x_TD: Tensor, routing: Routing, weights: Mapping[str, Tensor], prefix: str, config: TrainConfig
    ) -> Tensor:
        if self._mesh.ep_size == 1:
            return local_experts(x_TD, routing, weights, prefix, config)

        def function(own: Mapping[str, Tensor], x_TD: Tensor) -> Tensor:
            gate, up, down = (own[f"{prefix}experts.{name}"].to(x_TD.dtype) for name in ("gate", "up", "down"))
            return dispatched_experts(x_TD, routing, (gate, up, down), config.numerics.experts, self._peers)

        out_TD: Tensor = self._held().run(prefix + _EXPERTS[1:], function, {}, x_TD)
        return out_TD

    def gradients(
        self, loss: Tensor, names: Sequence[str], weights: Mapping[str, Tensor], *, is_frozen: bool
    ) -> tuple[Tensor, ...]:
        loss.backward()  # type: ignore[no-untyped-call]
        found = self._held().take_gradients()
        for name in found:
            if is_frozen and not name.startswith(PREFIX):
                found[name] = torch.zeros_like(found[name])
            elif self._is_spread(name):
                found[name] = found[name] / self._mesh.ep_size  # FSDP2 took the mean over the replicas only
        return tuple(found[name] for name in names)

    def _held(self) -> Units:
        assert self._units is not None
        return self._units

    def _is_spread(self, name: str) -> bool:
        return self._mesh.ep_size > 1 and _EXPERTS in name

    def _unit_of(self, name: str) -> str:
        parts = name.split(".")
        if self._is_spread(name):
            return name.partition(_EXPERTS)[0] + _EXPERTS
        return ".".join(parts[:2]) + "." if parts[0] in ("layers", "mtp") else parts[0] + "."

    def _expert_part(self, name: str, weight: Tensor) -> Tensor:
        """The stretch of experts that this process and its replicas have; other weights whole."""
        if not self._is_spread(name):
            return weight
        each, rank = len(weight) // self._mesh.ep_size, self._rank % self._mesh.ep_size
        return weight[each * rank : each * (rank + 1)].clone()

    def _group(self, groups: list[list[int]]) -> ProcessGroup:
        """The one of these groups that this process is in; every process makes all of them."""
        made = [dist.new_group(members) for members in groups]
        (mine,) = (group for group, members in zip(made, groups, strict=True) if self._rank in members)
        assert isinstance(mine, ProcessGroup)
        return mine

    def _all(self, tensor: Tensor) -> list[Tensor]:
        found = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.count)]
        dist.all_gather(found, tensor.detach().contiguous())
        return found

    def _size(self, cuts: Mapping[str, Tensor], process: int) -> int:
        def numel(name: str, span: Span) -> int:
            rest = self._shapes[name][1:]
            return (span[1] - span[0]) * (torch.Size(rest).numel())

        return sum(numel(name, self._spans[name][process]) for name in cuts)


def _hosts(ranks: Sequence[int]) -> tuple[str, ...]:
    """The machine of each place, from all processes."""
    names = [""] * len(ranks)
    dist.all_gather_object(names, platform.node())
    return tuple(names[rank] for rank in ranks)
