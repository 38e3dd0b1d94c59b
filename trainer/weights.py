"""Names, shapes and initial values of the parameters. Nothing is allocated to name or count them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from trainer.config import ModelConfig, MoeConfig, MtpConfig, TrainConfig

Shapes = dict[str, tuple[int, ...]]


def parameter_shapes(model: ModelConfig, moe: MoeConfig, mtp: MtpConfig | None = None) -> Shapes:
    """Every parameter of the model by name, in a fixed order.

    Expert matrices are stacked as [num_experts, d_expert, d_model]; `down` is stored transposed like the other two.
    """
    shapes: Shapes = {"embedding.weight": (model.vocab_size, model.d_model)}
    for layer in range(model.num_layers):
        for name, shape in _block_shapes(model, moe, is_dense=layer < moe.num_dense_layers):
            shapes[f"layers.{layer}.{name}"] = shape
    shapes["final_norm.weight"] = (model.d_model,)
    if not model.tie_embeddings:
        shapes["head.weight"] = (model.vocab_size, model.d_model)
    for module in range(mtp.num_modules if mtp else 0):
        for name, shape in _module_shapes(model, moe):
            shapes[f"mtp.{module}.{name}"] = shape
    return shapes


def buffer_shapes(config: TrainConfig) -> Shapes:
    """What moves without a gradient and is kept with the weights: the choice biases of the routers."""
    routers = [name.removesuffix("weight") for name in _shapes(config) if name.endswith(".router.weight")]
    return {f"{prefix}choice_bias": (config.moe.num_experts,) for prefix in routers if config.moe.choice_bias}


def num_parameters(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def _shapes(config: TrainConfig) -> Shapes:
    return parameter_shapes(config.model, config.moe, config.mtp)


def _module_shapes(model: ModelConfig, moe: MoeConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = model.d_model
    yield "hidden_norm.weight", (width,)
    yield "embedding_norm.weight", (width,)
    yield "projection.weight", (width, 2 * width)
    yield from _block_shapes(model, moe, is_dense=False)
    yield "final_norm.weight", (width,)


def _block_shapes(model: ModelConfig, moe: MoeConfig, *, is_dense: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
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
    if is_dense:
        for matrix in ("gate", "up", "down"):
            yield f"dense.{matrix}", (1, moe.d_dense, width)
        return
    yield "router.weight", (moe.num_experts, width)
    if moe.router_bias:
        yield "router.bias", (moe.num_experts,)
    for kind, count in (("experts", moe.num_experts), ("shared_experts", moe.num_shared_experts)):
        for matrix in ("gate", "up", "down") if count else ():
            yield f"{kind}.{matrix}", (count, moe.d_expert, width)


def initial_weights(config: TrainConfig) -> dict[str, Tensor]:
    """Float32 values of every parameter. Each depends only on the seed and its own name and shape."""
    return {name: _initial(name, shape, config) for name, shape in _shapes(config).items()}


def initial_buffers(config: TrainConfig) -> dict[str, Tensor]:
    """Float32 zeros, however the model computes: a step of the bias is smaller than bfloat16 can add."""
    return {name: torch.zeros(shape) for name, shape in buffer_shapes(config).items()}


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
    std = init.experts_std if "experts" in name or ".dense." in name else init.attention_std
    is_output = name.endswith((".down", ".o_proj.weight"))
    return std / math.sqrt(2 * model.num_layers) if is_output and init.scale_outputs_by_depth else std
