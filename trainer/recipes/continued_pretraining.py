"""Continued pretraining in three phases (RC2-3.1): `from trainer.recipes.continued_pretraining import recipe`.

Most tokens in short rows of a mix that code dominates, fewer in rows eight times as long, then a brief SFT on coding
tasks, whose file is `--set stages.sft.data.examples=FILE`. `python -m benchmarks.continued_pretraining` runs it.
"""

from __future__ import annotations

from trainer.config import TrainConfig
from trainer.recipe import Recipe, Stage

_MIX = {"data.mixture.library": 0.5, "data.mixture.packages": 0.4, "data.mixture.documentation": 0.1}


def recipe() -> Recipe:
    small = {
        "model.num_layers": 4,
        "model.qk_norm": True,
        "data.mixture.encodings": 0.0,
        "parallel.dp_size": 1,
        "schedule.warmup_steps": 10,
    }
    return Recipe(
        config=TrainConfig().with_overrides(small | _MIX),
        stages=(
            Stage(name="main", steps=600, about="code 90 %"),
            Stage(
                name="long",
                steps=100,
                changes={"model.rope_base": 100_000.0, "data.seq_len": 512, "data.batch_size": 1},
                about="the same mix",
            ),
            Stage(
                name="sft",
                steps=100,
                optimizer="reset",
                changes={
                    "model.rope_base": 100_000.0,
                    "data.documents": "answers",
                    "data.seq_len": 512,
                    "data.batch_size": 1,
                    "schedule.kind": "linear",
                    "schedule.warmup_steps": 10,
                    "schedule.decay_steps": 100,
                    **{f"optim.{group}.lr": 1e-3 for group in ("embedding", "head", "norm", "attention", "experts")},
                },
                about="coding tasks",
            ),
        ),
    )
