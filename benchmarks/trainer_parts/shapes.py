"""Fixed shapes of models and batches, and others from a file.

`--shapes FILE` is a JSON list of objects with `name` and any of the fields of `Shape`.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from contracts.errors import UserInputError
from contracts.events import Scalar
from trainer.config import GROUPS, TrainConfig


class Shape(BaseModel):
    """One model and batch; the optimizer is AdamW for all parameters, as in the peer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    num_layers: int = 4
    d_model: int = 256
    num_heads: int = 8
    num_kv_heads: int = 4
    head_dim: int = 32
    num_experts: int = 32
    top_k: int = 4
    d_expert: int = 96
    vocab_size: int = 4096
    batch_size: int = 2
    seq_len: int = 512

    def config(self, compute: str, **more: Scalar) -> TrainConfig:
        """`compute` is float32 or bfloat16; keyword `optim__clip` stands for the field `optim.clip`."""
        data, moe = ("batch_size", "seq_len"), ("num_experts", "top_k", "d_expert")
        section = {**dict.fromkeys(data, "data"), **dict.fromkeys(moe, "moe")}
        sizes: dict[str, Scalar] = {
            f"{section.get(name, 'model')}.{name}": value for name, value in self.model_dump(exclude={"name"}).items()
        }
        adamw: dict[str, Scalar] = {}
        for group in GROUPS:
            own: dict[str, Scalar] = {"optimizer": "adamw", "beta1": 0.9, "eps": 1e-8, "lr": 1e-4, "weight_decay": 0.1}
            adamw |= {f"optim.{group}.{key}": value for key, value in own.items()}
        fixed: dict[str, Scalar] = {
            "model.qk_norm": True,
            "numerics.compute": compute,
            "numerics.experts.products": "kernels",
            "diagnostics.norms_every": 10,
            "parallel.dp_size": 1,
            "schedule.warmup_steps": 0,
        }
        return TrainConfig().with_overrides(
            sizes | adamw | fixed | {key.replace("__", "."): value for key, value in more.items()}
        )


SHAPES = (
    Shape(name="32 experts, top 4, rows of 512"),
    Shape(name="128 experts, top 8, rows of 512", num_experts=128, top_k=8, d_expert=64, num_layers=2, batch_size=4),
    Shape(name="16 experts, top 2, width 512, one row of 1024", num_layers=2, d_model=512, num_heads=8, head_dim=64,
          num_experts=16, top_k=2, d_expert=256, vocab_size=8192, batch_size=1, seq_len=1024),
)  # fmt: skip


def shapes_of(path: Path | None) -> tuple[Shape, ...]:
    """Those of the file, or the fixed ones. Raises UserInputError for a file that is no list of shapes."""
    if path is None:
        return SHAPES
    try:
        found = TypeAdapter(tuple[Shape, ...]).validate_python(json.loads(path.read_text()))
    except (OSError, ValueError, ValidationError) as error:
        raise UserInputError(
            f"{path} is no JSON list of shapes: {error}", remedy=f"name fields of {', '.join(Shape.model_fields)}"
        ) from error
    if not found:
        raise UserInputError(f"{path} holds no shape", remedy='give at least [{"name": "mine"}]')
    return found
