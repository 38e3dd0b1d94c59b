"""Context parallelism for latent attention (MLA; DeepSeek-V2, arXiv 2405.04434 section 2.1): latents travel (RC2-7.4).

Each process makes the KV latents of its own positions and gathers those of all; keys and values of all positions are
then made by each process for itself, which costs little. The gather is in flight while the queries are projected.
The trainer's own attention has few KV heads and gathers those; this is the layer of the report, for the comparison.

Shape letters: P own positions, S all positions, D model width, H heads, N width of a key without rotation, R width of
its rotated part (shared by all heads), V width of a value, L latent width.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from benchmarks.communication_parts.gang import together
from benchmarks.communication_parts.traffic import Traffic
from trainer.attention import turn
from trainer.ranks.mesh import Mesh


@dataclass(frozen=True, kw_only=True)
class LatentShape:
    seq_len: int = 512
    width: int = 256
    heads: int = 8
    plain: int = 32
    rotated: int = 16
    value: int = 32
    latent: int = 64

    def weights(self) -> dict[str, Tensor]:
        """Random, from a seed of their own."""
        key = self.plain + self.rotated
        shapes = {
            "queries": (self.heads * key, self.width),
            "latents": (self.latent + self.rotated, self.width),
            "keys_values": (self.heads * (self.plain + self.value), self.latent),
            "output": (self.width, self.heads * self.value),
        }
        generator = torch.Generator().manual_seed(1)
        return {name: torch.randn(shape, generator=generator) / math.sqrt(shape[1]) for name, shape in shapes.items()}

    @property
    def gathered_over_keys_and_values(self) -> float:
        """(L + R) / (H (N + R + V))."""
        return (self.latent + self.rotated) / (self.heads * (self.plain + self.rotated + self.value))


class _Whole(torch.autograd.Function):
    """[S, ...] what a finished gather brought; the gradient of the own rows is the sum of all processes'."""

    @staticmethod
    def forward(ctx: Any, own_PX: Tensor, whole_SX: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return whole_SX

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        parts = [*grads[0].contiguous().chunk(ctx.group.size())]
        own = torch.empty_like(parts[0])
        dist.reduce_scatter(own, parts, group=ctx.group)
        return own, None, None


class Gathering:
    """An all-gather that has been started. `finished_s` is when it was done, by time.perf_counter."""

    def __init__(self, own_PX: Tensor, group: ProcessGroup) -> None:
        self._own, self._group = own_PX, group
        sent = own_PX.detach().contiguous()
        self._parts = [torch.empty_like(sent) for _ in range(group.size())]
        work = dist.all_gather(self._parts, sent, group=group, async_op=True)
        assert work is not None
        self._work, self.finished_s = work, math.inf
        work.get_future().add_done_callback(self._finished)

    def _finished(self, _: Any) -> None:
        self.finished_s = time.perf_counter()

    def wait(self) -> Tensor:
        """[S, ...] the rows of all processes in their order."""
        self._work.wait()
        whole: Tensor = _Whole.apply(self._own, torch.cat(self._parts), self._group)  # type: ignore[no-untyped-call]
        return whole


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Seconds since the gather began: queries projected, gather finished, its result in hand."""

    queries_s: float
    gathered_s: float
    waited_s: float


def latent_attention(
    x_PD: Tensor, weights: Mapping[str, Tensor], shape: LatentShape, columns_P: Tensor, group: ProcessGroup | None
) -> tuple[Tensor, Timeline | None]:
    """[P, D] causal attention of the own positions `columns_P`; without a group they are all positions in order."""
    latent_PX = x_PD @ weights["latents"].t()
    begin = time.perf_counter()
    gathering = Gathering(latent_PX, group) if group else None
    q_PHC = (x_PD @ weights["queries"].t()).view(len(x_PD), shape.heads, -1)
    queries_s = time.perf_counter() - begin
    latent_SX = gathering.wait() if gathering else latent_PX
    timeline = None
    order_S = columns_P
    if gathering and group:
        waited_s = time.perf_counter() - begin
        timeline = Timeline(queries_s=queries_s, gathered_s=gathering.finished_s - begin, waited_s=waited_s)
        mesh = Mesh(dp_size=1, cp_size=group.size(), ep_size=1)
        order_S = torch.cat([mesh.columns(rank, shape.seq_len) for rank in range(group.size())])
    out_PD = _attend(q_PHC, latent_SX, weights, shape, columns_P, order_S)
    return out_PD @ weights["output"].t(), timeline


def _attend(
    q_PHC: Tensor, latent_SX: Tensor, weights: Mapping[str, Tensor], shape: LatentShape, own_P: Tensor, order_S: Tensor
) -> Tensor:
    """[P, H * V]. `order_S` are the positions of the latents' rows."""
    plain, rotated = shape.plain, shape.rotated
    latent_SL, shared_SR = torch.split(latent_SX, [shape.latent, rotated], dim=1)
    made_SHX = (latent_SL @ weights["keys_values"].t()).view(len(latent_SX), shape.heads, -1)
    k_SHN, v_SHV = torch.split(made_SHX, [plain, shape.value], dim=2)
    k_S1R = turn(shared_SR.unsqueeze(1), _rotation(order_S, rotated))
    k_SHC = torch.cat([k_SHN, k_S1R.expand(-1, shape.heads, -1)], dim=2)
    q_PHC = torch.cat([q_PHC[..., :plain], turn(q_PHC[..., plain:], _rotation(own_P, rotated))], dim=2)
    scores_HPS = torch.einsum("phc,shc->hps", q_PHC, k_SHC) / math.sqrt(plain + rotated)
    scores_HPS = scores_HPS.masked_fill(order_S > own_P.unsqueeze(1), -math.inf)
    return torch.einsum("hps,shv->phv", scores_HPS.softmax(dim=-1), v_SHV).flatten(1)


def _rotation(position_P: Tensor, width: int) -> Tensor:
    half = torch.arange(width // 2, dtype=torch.float64)
    angle = torch.outer(position_P.double(), 10_000.0 ** (-2.0 * half / width)).unsqueeze(1)
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64)


def inputs(shape: LatentShape) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return tuple(torch.randn(shape.seq_len, shape.width, generator=generator) for _ in range(2))  # type: ignore[return-value]


def alone(shape: LatentShape) -> list[Tensor]:
    """Output, gradient of the input, and of each weight in order."""
    (x_SD, grad_SD), weights = inputs(shape), shape.weights()
    leaves = [tensor.requires_grad_() for tensor in (x_SD, *weights.values())]
    out_SD, _ = latent_attention(x_SD, weights, shape, torch.arange(shape.seq_len), None)
    return [out_SD.detach(), *torch.autograd.grad(out_SD, leaves, grad_SD)]


def spread(shape: LatentShape) -> dict[str, Any]:
    """As `alone`, of the own positions; the weights' gradients are summed over the processes."""
    group = dist.group.WORLD
    assert group is not None
    mesh = Mesh(dp_size=1, cp_size=group.size(), ep_size=1)
    columns_P = mesh.columns(dist.get_rank(), shape.seq_len)
    weights = shape.weights()
    x_PD, grad_PD = (each[columns_P] for each in inputs(shape))
    leaves = [tensor.requires_grad_() for tensor in (x_PD, *weights.values())]
    timelines = [latent_attention(x_PD, weights, shape, columns_P, group)[1] for _ in range(20)]
    with Traffic() as traffic:
        out_PD, _ = latent_attention(x_PD, weights, shape, columns_P, group)
    grads = [*torch.autograd.grad(out_PD, leaves, grad_PD)]
    for grad in grads[1:]:
        dist.all_reduce(grad)
    results = [out_PD.detach(), *grads]
    return {"columns": columns_P, "results": results, "bytes": traffic.counts.total_bytes, "timelines": timelines[2:]}


def measure(*, size: int, shape: LatentShape) -> dict[str, Any]:
    """Bytes gathered for the latents and for keys and values, and where the gather ended, in the median of rounds."""
    first = together(spread, size, shape)[0]
    lines = sorted(first["timelines"], key=lambda line: line.waited_s)
    hidden = [line.gathered_s <= line.queries_s for line in lines]
    median = lines[len(lines) // 2]
    return {
        "gathered_bytes": first["bytes"],
        "keys_and_values_bytes": round(first["bytes"] / shape.gathered_over_keys_and_values),
        "ratio": shape.gathered_over_keys_and_values,
        "hidden_behind_queries": f"{sum(hidden)} of {len(hidden)}",
        "timeline_ms": {name: 1e3 * value for name, value in vars(median).items()},
    }
