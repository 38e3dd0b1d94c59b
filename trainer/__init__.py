"""Embedded MoE trainer: a recipe goes in, a run folder with events and checkpoints comes out.

A project needs three names: `Recipe` (what to train), `TrainConfig` (every number) and `Parts` (the pieces of
the trainer that a team would edit). Importing them does not import torch.
"""

from trainer.config import (
    BalanceConfig,
    GroupConfig,
    MixtureConfig,
    ModelConfig,
    MoeConfig,
    MtpConfig,
    OptimConfig,
    ScheduleConfig,
    TrainConfig,
)
from trainer.parts import BatchLayout, Parts
from trainer.recipe import Recipe, Stage

__all__ = [
    "BalanceConfig",
    "BatchLayout",
    "GroupConfig",
    "MixtureConfig",
    "ModelConfig",
    "MoeConfig",
    "MtpConfig",
    "OptimConfig",
    "Parts",
    "Recipe",
    "ScheduleConfig",
    "Stage",
    "TrainConfig",
]
