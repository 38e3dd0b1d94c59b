"""Tensor against context parallelism on one dense block, forward and backward (RC2-7.3).

Tensor parallel (Shoeybi et al., arXiv 1909.08053): each process has a share of the heads and of the SwiGLU's width, and
activations are summed behind both halves. Context parallel is the trainer's own: each process has a share of the
positions and all weights; keys and values are gathered.

Shape letters: B sequences, S positions, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.communication_parts.gang import together
from benchmarks.communication_parts.traffic import Counts, Traffic
from kernels.measure import interleave
from trainer.attention import Attending, AttentionTables, attention
from trainer.block import block
from trainer.config import ModelConfig, TrainConfig
from trainer.experts import shared_experts
from trainer.norm import rms_norm
from trainer.ranks.context import ContextTables
from trainer.ranks.mesh import Mesh
from trainer.weights import initial_weights

Weights = Mapping[str, Tensor]
_PREFIX = "layers.0."
_MATRICES = ("gate", "up", "down")


class _Copied(torch.autograd.Function):
    """Every process has x; each has a share of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].clone()
        dist.all_reduce(total)
        return total


class _Summed(torch.autograd.Function):
    """Every process has a share of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


def config_of(seq_len: int, width: int) -> TrainConfig:
    """A dense layer (and one that is not used, because no model is without experts); a quarter of the heads are KV."""
    return TrainConfig().with_overrides(
        {
            "model.num_layers": 2, "model.d_model": width, "model.num_heads": width // 32, "model.head_dim": 32,
            "model.num_kv_heads": width // 128, "moe.num_dense_layers": 1, "moe.d_dense": 3 * width,
            "data.seq_len": seq_len, "parallel.dp_size": 1,
        }
    )  # fmt: skip


def weights_of(config: TrainConfig) -> dict[str, Tensor]:
    return {name: value for name, value in initial_weights(config).items() if name.startswith(_PREFIX)}


def inputs(config: TrainConfig) -> tuple[Tensor, Tensor]:
    """The residual stream that the block reads, and the gradient behind it."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, config.data.seq_len, config.model.d_model)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def gradients(out_BSD: Tensor, leaves: list[Tensor], grad_BSD: Tensor) -> list[Tensor]:
    return [out_BSD.detach(), *torch.autograd.grad(out_BSD, leaves, grad_BSD)]


def alone(config: TrainConfig) -> list[Tensor]:
    """Output, gradient of the input, and of each weight in order, by one process."""
    (x_BSD, grad_BSD), weights = inputs(config), weights_of(config)
    leaves = [tensor.requires_grad_() for tensor in (x_BSD, *weights.values())]
    tables = AttentionTables.build(config.model, config.data.seq_len)
    return gradients(block(x_BSD, weights, _PREFIX, config, tables, None)[0], leaves, grad_BSD)


def context_parallel(config: TrainConfig) -> tuple[list[Tensor], Counts]:
    """As `alone`, with the output and the input's gradient of the own positions only."""
    size, rank = dist.get_world_size(), dist.get_rank()
    mesh = Mesh(dp_size=1, cp_size=size, ep_size=1)
    group = dist.group.WORLD
    assert group is not None
    tables = ContextTables.cut(config.model, config.data.seq_len, mesh, rank, group)
    weights = weights_of(config)
    x_BPD, grad_BPD = (tables.own(each).contiguous() for each in inputs(config))
    leaves = [tensor.requires_grad_() for tensor in (x_BPD, *weights.values())]
    with Traffic() as traffic:
        found = gradients(block(x_BPD, weights, _PREFIX, config, tables, None)[0], leaves, grad_BPD)
    for grad in found[2:]:
        dist.all_reduce(grad)  # what FSDP2 does as it cuts them; counted apart, for it does not grow with the rows
    return found, traffic.counts


def tensor_parallel(config: TrainConfig) -> tuple[list[Tensor], Counts]:
    """As `alone`, with gradients of the own shares of the weights only."""
    size, rank = dist.get_world_size(), dist.get_rank()
    model = config.model.model_copy(
        update={"num_heads": config.model.num_heads // size, "num_kv_heads": config.model.num_kv_heads // size}
    )
    weights = {name: _share(name, value, rank, size) for name, value in weights_of(config).items()}
    x_BSD, grad_BSD = inputs(config)
    leaves = [tensor.requires_grad_() for tensor in (x_BSD, *weights.values())]
    tables = AttentionTables.build(model, config.data.seq_len)
    with Traffic() as traffic:
        found = gradients(_shared_block(x_BSD, weights, model, tables), leaves, grad_BSD)
    return found, traffic.counts


def _share(name: str, value: Tensor, rank: int, size: int) -> Tensor:
    """Rows of what widens, columns of what narrows again; norms whole."""
    if "norm" in name:
        return value
    dim = 1 if "o_proj" in name or ".dense." in name else 0
    return value.chunk(size, dim=dim)[rank].clone()


def _shared_block(x_BSD: Tensor, weights: Weights, model: ModelConfig, tables: Attending) -> Tensor:
    normal: Tensor = _Copied.apply(rms_norm(x_BSD, weights[f"{_PREFIX}attn_norm.weight"], model.norm_eps))  # type: ignore[no-untyped-call]
    mixed: Tensor = _Summed.apply(attention(normal, weights, f"{_PREFIX}attn.", model, tables))  # type: ignore[no-untyped-call]
    x_BSD = x_BSD + mixed
    normal = _Copied.apply(rms_norm(x_BSD, weights[f"{_PREFIX}moe_norm.weight"], model.norm_eps))  # type: ignore[no-untyped-call]
    out_TD = shared_experts(normal.flatten(0, 1), *(weights[f"{_PREFIX}dense.{name}"] for name in _MATRICES))
    out: Tensor = _Summed.apply(out_TD)  # type: ignore[no-untyped-call]
    return x_BSD + out.view_as(x_BSD)


def counted(config: TrainConfig) -> dict[str, Any]:
    """Of this process: bytes received for activations, and the products of both layouts."""
    found = {}
    for name, layout in (("context", context_parallel), ("tensor", tensor_parallel)):
        _, counts = layout(config)
        found[name] = {"received_bytes": counts.total_bytes, "products": dict(counts.products)}
    return found


def product_rate(rows: int, inner: int, columns: int, *, rounds: int) -> float:
    """GFLOP/s of one float32 product on one thread, the best of the rounds."""
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    times = interleave({"it": lambda: torch.mm(left, right)}, rounds=rounds)
    return 2.0 * rows * inner * columns / min(times["it"]) / 1e9


def measure(*, size: int, seq_len: int, width: int, rounds: int) -> dict[str, Any]:
    """Bytes, shapes and rates of the two layouts over `size` processes.

    `weights_bytes` is what folding context parallelism into FSDP2 adds for each layer and step, whatever the length:
    weights gathered twice and gradients scattered once, in float32.
    """
    config = config_of(seq_len, width)
    found = {name: dict(layout) for name, layout in together(counted, size, config)[0].items()}
    for layout in found.values():
        rates = {shape: product_rate(*map(int, shape.split(" x ")), rounds=rounds) for shape in layout["products"]}
        flops = {shape: count * _flops(shape) for shape, count in layout["products"].items()}
        seconds = sum(flops[shape] / rates[shape] for shape in rates)
        layout["gflops_per_s"] = sum(flops.values()) / seconds
        layout["products"] = {shape: [layout["products"][shape], round(rates[shape], 1)] for shape in rates}
    weights = sum(value.numel() for value in weights_of(config).values())
    found["context"]["weights_bytes"] = 3 * 4 * weights * (size - 1) // size
    ratio = found["tensor"]["received_bytes"] / found["context"]["received_bytes"]
    return {"seq_len": seq_len, "width": width, "size": size, "bytes_tensor_over_context": ratio, **found}


def _flops(shape: str) -> float:
    rows, inner, columns = map(int, shape.split(" x "))
    return 2.0 * rows * inner * columns
