"""The published schedule's three kinds of switch, small enough to run.

A recipe.py runs it with one line, `from trainer.recipes.three_stages import recipe`, and `--set stages.long.steps=20`.
Short rows; the same with another rotary base and mixture, optimizer and schedule going on; rows four times as long with
the optimizer reset, balance losses off, and warm-up and decay of its own (R801-7.3, R801-7.4).
"""

from __future__ import annotations

from trainer.config import TrainConfig
from trainer.recipe import Recipe, Stage


def recipe() -> Recipe:
    small = {
        "model.num_layers": 4,
        "model.d_model": 32,
        "model.num_heads": 2,
        "model.num_kv_heads": 1,
        "model.qk_norm": True,
        "moe.d_expert": 16,
        "schedule.warmup_steps": 10,
    }
    return Recipe(
        config=TrainConfig().with_overrides(small),
        stages=(
            Stage(name="short", steps=60, about="web-like mixture"),
            Stage(
                name="mixture",
                steps=40,
                changes={"model.rope_base": 50_000.0, "data.mixture.documentation": 0.6, "data.mixture.library": 0.1},
            ),
            Stage(
                name="long",
                steps=40,
                optimizer="reset",
                changes={
                    "model.rope_base": 500_000.0,
                    "data.seq_len": 256,
                    "data.batch_size": 4,
                    "moe.balance.coef": 0.0,
                    "moe.z_loss.coef": 0.0,
                    "schedule.kind": "cosine",
                    "schedule.warmup_steps": 5,
                    "schedule.decay_steps": 40,
                },
            ),
        ),
    )
