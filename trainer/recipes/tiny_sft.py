"""Tiny SFT of the small model: `trainer.recipes.tiny_sft:recipe`, with `data.examples` as an override.

Launched from a checkpoint of `trainer.recipes.small`, it takes the weights and starts at step 0.
"""

from __future__ import annotations

from trainer.config import TrainConfig
from trainer.recipe import Recipe
from trainer.tiny_sft import Budget, sft_overrides


def recipe() -> Recipe:
    config = TrainConfig()
    return Recipe(config=config.with_overrides(sft_overrides(config, Budget())))
