"""The published five stages scaled down to seconds; a recipe.py: `from trainer.recipes.five_stages import recipe`.

Lengths by 256 (16, 128 and 1,024), 1,024 tokens a step, steps by 5,000 in the pretraining stages and by 500 in the two
context extensions; rates, rotary bases, penalties, warm-ups, decay and what becomes of the optimizer as published.
"""

from __future__ import annotations

from dataclasses import replace

from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.recipe import Recipe, Stage
from trainer.recipes.published import STAGES

_TOKENS, _LENGTH = 1024, 256
_HERE = ("parallel.accumulation", "data.batch_size", "data.balance_window", "data.mixture.folders")


def recipe() -> Recipe:
    small: dict[str, Scalar] = {
        "model.num_layers": 2,
        "model.d_model": 32,
        "model.num_heads": 2,
        "model.num_kv_heads": 1,
        "model.qk_norm": True,
        "moe.d_expert": 16,
        "moe.balance.coef": 1e-4,
        "data.seq_len": 4096 // _LENGTH,
        "data.batch_size": _TOKENS * _LENGTH // 4096,
        "data.corpus_bytes": 400_000,
        "parallel.dp_size": 1,
    }
    return Recipe(config=TrainConfig().with_overrides(small), stages=tuple(map(_scaled, STAGES)))


def _scaled(stage: Stage) -> Stage:
    by = 5000 if stage.steps > 10_000 else 500
    changes = {key: value for key, value in stage.changes.items() if key not in _HERE}
    for key in ("schedule.warmup_steps", "schedule.decay_start", "schedule.decay_steps"):
        if key in changes:
            changes[key] = max(1, int(str(changes[key])) // by)
    if "data.seq_len" in changes:
        length = int(str(changes["data.seq_len"])) // _LENGTH
        changes |= {"data.seq_len": length, "data.batch_size": _TOKENS // length}
    return replace(stage, steps=stage.steps // by, changes=changes)
