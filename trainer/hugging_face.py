"""Export to and import from the Qwen3-MoE layout of Hugging Face: config.json and model.safetensors.

What that family does not have is refused by name, except MTP modules: they go into `mtp.safetensors` beside it.
Rotary pairs are neighbours here and half a head apart there, so rows of queries and keys are reordered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contracts.errors import ConfigError, NotFound
from contracts.events import Scalar
from trainer.config import MoeConfig, TrainConfig
from trainer.safetensors_file import read_tensors, write_tensors
from trainer.weights import parameter_shapes

_MODEL, _MTP, _CONFIG = "model.safetensors", "mtp.safetensors", "config.json"
_NEEDED: dict[str, Scalar] = {
    "model.qk_norm": True,
    "model.attention_scale": 1.0,
    "model.rope_scale": 1.0,
    "model.embedding_scale": 1.0,
    "model.residual_scale": 1.0,
    "model.logit_softcap": 0.0,
    "moe.num_shared_experts": 0,
    "moe.gate": "softmax",
    "moe.routed_scale": 1.0,
    "moe.router_bias": False,
    "moe.choice_bias": False,
    "moe.router_temperature": 1.0,
}
_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "moe_norm.weight": "post_attention_layernorm.weight",
    "router.weight": "mlp.gate.weight",
    **{f"attn.{p}_proj.weight": f"self_attn.{p}_proj.weight" for p in "qkvo"},
    **{f"attn.{p}_proj.bias": f"self_attn.{p}_proj.bias" for p in "qkv"},
    **{f"attn.{p}_norm.weight": f"self_attn.{p}_norm.weight" for p in "qk"},
}
_WHOLE = {
    "embedding.weight": "model.embed_tokens.weight",
    "final_norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
_ROTATED = tuple(f"attn.{p}_{kind}" for p in "qk" for kind in ("proj.weight", "proj.bias", "norm.weight"))


@dataclass(frozen=True, kw_only=True)
class ImportedModel:
    """Overrides for `TrainConfig.with_overrides` that describe the model, and its float32 weights by our names."""

    overrides: Mapping[str, Scalar]
    weights: Mapping[str, Tensor]


def export_model(config: TrainConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write the model into `folder`.

    Raises ConfigError naming each field that Qwen3-MoE has no place for, and for weights of another config.
    """
    flat = config.flat()
    foreign = [f"{key}={flat[key]}" for key, value in _NEEDED.items() if flat[key] != value]
    if foreign:
        needed = ", ".join(f"{entry.partition('=')[0]}={_NEEDED[entry.partition('=')[0]]}" for entry in foreign)
        raise ConfigError(f"Qwen3-MoE cannot express {', '.join(foreign)}", remedy=f"train with {needed}")
    shapes = parameter_shapes(config.model, config.moe, config.mtp)
    wrong = [n for n in {**shapes, **weights} if n not in weights or tuple(weights[n].shape) != shapes.get(n)]
    if wrong:
        raise ConfigError(
            f"the weights are not those of the config: '{wrong[0]}' differs",
            remedy="name the recipe and the overrides that the checkpoint was trained with",
        )
    folder.mkdir(parents=True, exist_ok=True)
    main = {name: weight for name, weight in weights.items() if not name.startswith("mtp.")}
    write_tensors(folder / _MODEL, dict(_exported(config, main)))
    if len(main) < len(weights):
        write_tensors(folder / _MTP, {name: weight for name, weight in weights.items() if name not in main})
    (folder / _CONFIG).write_text(json.dumps(_described(config), indent=2) + "\n")


def import_model(folder: Path) -> ImportedModel:
    """Read a Qwen3-MoE model, of one file or several, with its experts apart or joined (transformers 4 and 5).

    Raises NotFound when files are missing and ConfigError for another family or a setting that we do not have.
    """
    path = folder / _CONFIG
    if not path.is_file():
        raise NotFound(f"there is no {path}", remedy="name a folder that holds a Hugging Face model")
    overrides = _overrides(json.loads(path.read_text()), path)
    theirs = _stored(folder)
    extra = read_tensors(folder / _MTP) if (folder / _MTP).is_file() else {}
    modules = {name.split(".")[1] for name in extra}
    config = TrainConfig().with_overrides(
        overrides | {"mtp.num_modules": len(modules), "parallel.dp_size": 1, "data.seq_len": 16}
    )
    shapes = parameter_shapes(config.model, config.moe)
    weights = {name: _imported(name, shape, theirs, config).contiguous() for name, shape in shapes.items()}
    return ImportedModel(overrides=overrides | {"mtp.num_modules": len(modules)}, weights=weights | extra)


def _exported(config: TrainConfig, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, weight in weights.items():
        prefix, rest = _split(name)
        if not prefix:
            yield _WHOLE[name], weight
        elif rest.startswith(("experts.", "dense.")):
            kind, _, matrix = rest.partition(".")
            for expert, values in enumerate(weight):
                place = f"experts.{expert}." if kind == "experts" else ""
                yield f"{prefix}mlp.{place}{matrix}_proj.weight", values.t() if matrix == "down" else values
        else:
            yield prefix + _NAMES[rest], _rotated(rest, weight, config.model.head_dim, is_export=True)
    if config.model.attention_bias:  # theirs has one behind the output matrix too
        for layer in range(config.model.num_layers):
            yield f"model.layers.{layer}.self_attn.o_proj.bias", torch.zeros(config.model.d_model)


def _imported(name: str, shape: tuple[int, ...], theirs: Mapping[str, Tensor], config: TrainConfig) -> Tensor:
    prefix, rest = _split(name)
    if not prefix:
        return _fitting(_WHOLE[name], theirs, shape)
    if rest.startswith("dense."):
        matrix = rest.removeprefix("dense.")
        values = _found(f"{prefix}mlp.{matrix}_proj.weight", theirs)
        return (values.t() if matrix == "down" else values).unsqueeze(0)
    if rest.startswith("experts."):
        return _experts(prefix, rest.removeprefix("experts."), theirs, config.moe)
    return _rotated(rest, _fitting(prefix + _NAMES[rest], theirs, shape), config.model.head_dim, is_export=False)


def _experts(prefix: str, matrix: str, theirs: Mapping[str, Tensor], moe: MoeConfig) -> Tensor:
    """[E, F, D]."""
    joined = f"{prefix}mlp.experts.{'down_proj' if matrix == 'down' else 'gate_up_proj'}"
    if joined in theirs:
        values = theirs[joined]
        if matrix == "down":
            return values.transpose(1, 2)
        return values[:, : moe.d_expert] if matrix == "gate" else values[:, moe.d_expert :]
    apart = [_found(f"{prefix}mlp.experts.{expert}.{matrix}_proj.weight", theirs) for expert in range(moe.num_experts)]
    stacked = torch.stack(apart)
    return stacked.transpose(1, 2) if matrix == "down" else stacked


def _rotated(rest: str, weight: Tensor, head_dim: int, *, is_export: bool) -> Tensor:
    """Rows of each head from pairs to halves, or back."""
    if rest not in _ROTATED:
        return weight
    by_head = weight.reshape(-1, head_dim, *weight.shape[1:])
    order = torch.cat([torch.arange(0, head_dim, 2), torch.arange(1, head_dim, 2)])
    return by_head[:, order if is_export else order.argsort()].reshape(weight.shape)


def _split(name: str) -> tuple[str, str]:
    """Their prefix of a layer and our name within it; "" outside the layers."""
    if not name.startswith("layers."):
        return "", name
    _, layer, rest = name.split(".", 2)
    return f"model.layers.{layer}.", rest


def _found(name: str, theirs: Mapping[str, Tensor]) -> Tensor:
    if name not in theirs:
        raise ConfigError(f"the model's files have no '{name}'", remedy="import a complete Qwen3-MoE model")
    return theirs[name]


def _fitting(name: str, theirs: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
    weight = _found(name, theirs)
    if tuple(weight.shape) != shape:
        raise ConfigError(
            f"'{name}' has shape {tuple(weight.shape)}, config.json asks for {shape}",
            remedy="import a model whose config.json belongs to its weights",
        )
    return weight


def _stored(folder: Path) -> dict[str, Tensor]:
    index = folder / f"{_MODEL}.index.json"
    files = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.is_file() else [_MODEL]
    theirs: dict[str, Tensor] = {}
    for file in files:
        if not (folder / file).is_file():
            raise NotFound(f"there is no {folder / file}", remedy="name a folder with all safetensors files")
        theirs |= read_tensors(folder / file)
    if any(bias.any() for name, bias in theirs.items() if name.endswith("o_proj.bias")):
        raise ConfigError("the model has a bias behind o_proj, which we do not", remedy="import one without it")
    return theirs


def _described(config: TrainConfig) -> dict[str, Any]:
    model, moe = config.model, config.moe
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "dtype": "float32",
        "vocab_size": model.vocab_size,
        "hidden_size": model.d_model,
        "intermediate_size": moe.d_dense,
        "moe_intermediate_size": moe.d_expert,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads,
        "head_dim": model.head_dim,
        "num_experts": moe.num_experts,
        "num_experts_per_tok": moe.top_k,
        "norm_topk_prob": moe.renormalise,
        "rms_norm_eps": model.norm_eps,
        "rope_theta": model.rope_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_base},
        "max_position_embeddings": config.data.seq_len,
        "tie_word_embeddings": model.tie_embeddings,
        "attention_bias": model.attention_bias,
        "mlp_only_layers": list(range(moe.num_dense_layers)),
        "decoder_sparse_step": 1,
        "hidden_act": "silu",
        "use_sliding_window": False,
        "router_aux_loss_coef": moe.balance.coef,
    }


def _overrides(theirs: Mapping[str, Any], path: Path) -> dict[str, Scalar]:
    dense = theirs.get("mlp_only_layers") or []
    rope = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    refused = {
        "model_type": theirs.get("model_type") != "qwen3_moe",
        "rope_parameters": rope.get("rope_type", "default") != "default",
        "mlp_only_layers": dense != list(range(len(dense))),
        "decoder_sparse_step": theirs.get("decoder_sparse_step", 1) != 1,
        "hidden_act": theirs.get("hidden_act", "silu") != "silu",
        "use_sliding_window": bool(theirs.get("use_sliding_window")),
    }
    if wrong := [key for key, is_wrong in refused.items() if is_wrong]:
        values = ", ".join(f"{key}={theirs.get(key)}" for key in wrong)
        raise ConfigError(f"{path} has {values}, which we do not", remedy="import a plain Qwen3-MoE model")
    heads = theirs["num_attention_heads"]
    return _NEEDED | {
        "model.vocab_size": theirs["vocab_size"],
        "model.d_model": theirs["hidden_size"],
        "model.num_layers": theirs["num_hidden_layers"],
        "model.num_heads": heads,
        "model.num_kv_heads": theirs.get("num_key_value_heads", heads),
        "model.head_dim": theirs.get("head_dim") or theirs["hidden_size"] // heads,
        "model.norm_eps": theirs.get("rms_norm_eps", 1e-6),
        "model.rope_base": rope.get("rope_theta") or theirs.get("rope_theta", 10_000.0),
        "model.tie_embeddings": bool(theirs.get("tie_word_embeddings")),
        "model.attention_bias": bool(theirs.get("attention_bias")),
        "moe.num_experts": theirs.get("num_experts") or theirs["num_local_experts"],
        "moe.top_k": theirs["num_experts_per_tok"],
        "moe.d_expert": theirs["moe_intermediate_size"],
        "moe.renormalise": bool(theirs.get("norm_topk_prob")),
        "moe.num_dense_layers": len(dense),
        "moe.d_dense": theirs["intermediate_size"],
    }
