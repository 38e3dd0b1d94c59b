"""Names, shapes and initial values of the parameters. Nothing is allocated to name or count them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from trainer.config import ModelConfig, MoeConfig, TrainConfig

VOCABULARY = 256  # bytes

Shapes = dict[str, tuple[int, ...]]


def parameter_shapes(model: ModelConfig, moe: MoeConfig) -> Shapes:
    """Every parameter of the model by name, in a fixed order.

    Expert matrices are stacked as [num_experts, d_expert, d_model]; `down` is stored transposed like the other two.
    """
    shapes: Shapes = {"embedding.weight": (VOCABULARY, model.d_model)}
    for layer in range(model.num_layers):
        for name, shape in _block_shapes(model, moe):
            shapes[f"layers.{layer}.{name}"] = shape
    shapes["final_norm.weight"] = (model.d_model,)
    if not model.tie_embeddings:
        shapes["head.weight"] = (VOCABULARY, model.d_model)
    return shapes


def num_parameters(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def _block_shapes(model: ModelConfig, moe: MoeConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, head = model.d_model, model.head_dim
    outputs = {
        "q_proj": model.num_heads * head,
        "k_proj": model.num_kv_heads * head,
        "v_proj": model.num_kv_heads * head,
    }
    yield "attn_norm.weight", (width,)
    for name, size in outputs.items():
        yield f"attn.{name}.weight", (size, width)
    if model.attention_bias:
        for name, size in outputs.items():
            yield f"attn.{name}.bias", (size,)
    yield "attn.o_proj.weight", (width, model.num_heads * head)
    if model.qk_norm:
        yield "attn.q_norm.weight", (head,)
        yield "attn.k_norm.weight", (head,)
    yield "moe_norm.weight", (width,)
    yield "router.weight", (moe.num_experts, width)
    if moe.router_bias:
        yield "router.bias", (moe.num_experts,)
    for kind, count in (("experts", moe.num_experts), ("shared_experts", moe.num_shared_experts)):
        for matrix in ("gate", "up", "down") if count else ():
            yield f"{kind}.{matrix}", (count, moe.d_expert, width)


def initial_weights(config: TrainConfig) -> dict[str, Tensor]:
    """Float32 values of every parameter. Each depends only on the seed and its own name and shape."""
    shapes = parameter_shapes(config.model, config.moe)
    return {name: _initial(name, shape, config) for name, shape in shapes.items()}


def _initial(name: str, shape: tuple[int, ...], config: TrainConfig) -> Tensor:
    if name.endswith(".bias"):
        return torch.zeros(shape)
    if "norm" in name:
        return torch.ones(shape)
    digest = hashlib.sha256(f"{config.seed} {name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    cut = config.model.init.cut_stds
    return torch.randn(shape, generator=generator).clamp_(-cut, cut) * _std(name, config.model)


def _std(name: str, model: ModelConfig) -> float:
    init = model.init
    for part, std in (("embedding", init.embedding_std), ("head", init.head_std), ("router", init.router_std)):
        if name.startswith(part) or f".{part}." in name:
            return std
    std = init.experts_std if "experts" in name else init.attention_std
    is_output = name.endswith((".down", ".o_proj.weight"))
    return std / math.sqrt(2 * model.num_layers) if is_output and init.scale_outputs_by_depth else std
