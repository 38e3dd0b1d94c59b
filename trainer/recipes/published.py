"""The report's five stages as a plan with its own numbers (R801-7.1 to 7.5): `lathe train --dry-run` prints it.

Sizes are those of the public Qwen3-30B-A3B configuration. Stage3's peak rate is not stated; that of Stage2 is taken.
Shares that the report does not give are one source, `unstated`, with what remains.
"""

from __future__ import annotations

from trainer.config import TrainConfig
from trainer.recipe import Recipe, Stage

_TOKENS = 33_554_432  # of one global batch, in all stages
_RATE = 5e-4
_SHORT = {"parallel.accumulation": 64}  # one row at a time on each of 128 data-parallel ranks
_CATEGORIES = {"data.mixture.folders": "web=23 papers=20 books=17 qa=10 unstated=30"}
_FIRST = {"data.mixture.folders": "web=48 code=20 unstated=32"}
_PENALTIES_OFF = {"moe.balance.coef": 0.0, "moe.z_loss.coef": 0.0}
STOCK = {
    "web": 4.24e12, "code": 1.86e12, "papers": 1.47e12, "qa": 1.33e12, "books": 974e9, "math": 442e9, "agent": 134e9,
    "other": 44e9,
}  # fmt: skip
"""Unique tokens by category (R801-7.6); sampling weights are other numbers."""

STAGES = (
    Stage(
        name="Stage1-1",
        steps=210_000,
        changes={"model.rope_base": 1e4, "schedule.warmup_steps": 2000, **_SHORT, **_FIRST},
    ),
    Stage(name="Stage1-2", steps=30_000, changes={"model.rope_base": 5e5, **_SHORT, **_CATEGORIES}),
    Stage(
        name="Stage1-3",
        steps=105_000,
        changes={"model.rope_base": 5e6, **_SHORT, **_CATEGORIES},
        about="other sources of the same categories",
    ),
    Stage(
        name="Stage2",
        steps=3000,
        optimizer="reset",
        changes={
            "model.rope_base": 5e6,
            "data.seq_len": 32_768,
            "data.batch_size": _TOKENS // 32_768,
            "parallel.accumulation": 8,
            "schedule.warmup_steps": 1000,
            "data.mixture.folders": "qa=32 capability=10 unstated=58",
            **_PENALTIES_OFF,
        },
    ),
    Stage(
        name="Stage3",
        steps=6000,
        optimizer="reset",
        changes={
            "model.rope_base": 5e6,
            "data.seq_len": 262_144,
            "data.batch_size": _TOKENS // 262_144,
            "data.documents": "packed",
            "data.balance_window": 8,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 1000,
            "schedule.decay_start": 1000,  # at the peak
            "schedule.decay_steps": 5000,
            "schedule.min_ratio": 0.1,
            "data.mixture.folders": "agent=15 capability=11 unstated=74",
            **_PENALTIES_OFF,
        },
        about="length-aware packing",
    ),
)


def recipe() -> Recipe:
    return Recipe(config=_config(), stages=STAGES, stock=STOCK)


def _config() -> TrainConfig:
    groups = ("embedding", "head", "norm", "bias", "router", "attention", "experts")
    return TrainConfig().with_overrides(
        {
            "model.vocab_size": 151_936,
            "model.num_layers": 48,
            "model.d_model": 2048,
            "model.num_heads": 32,
            "model.num_kv_heads": 4,
            "model.head_dim": 128,
            "model.qk_norm": True,
            "moe.num_experts": 128,
            "moe.top_k": 8,
            "moe.d_expert": 768,
            "moe.balance.coef": 1e-4,
            "moe.z_loss.coef": 1e-3,
            **{f"optim.{group}.lr": _RATE for group in groups},
            "parallel.dp_size": 128,
            "parallel.cp_size": 2,
            "parallel.ep_size": 8,
            "parallel.processes": True,
            "data.folder": "corpus",
            "data.mixture.folders": "web=1",
            "data.seq_len": 4096,
            "data.batch_size": _TOKENS // 4096,
            "numerics.activation_checkpointing": True,
        }
    )
