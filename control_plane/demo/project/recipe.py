"""The recipe of our small mixture-of-experts model: every number we tune, and the parts we wrote ourselves.

What is not named here is the trainer's default.
"""

from __future__ import annotations

from balance import balance_loss
from groups import parameter_group
from loader import rank_positions
from report import log_line
from schedule import learning_rate
from trainer import Parts, Recipe, TrainConfig
from trainer.config import (
    BalanceConfig,
    CheckpointConfig,
    DataConfig,
    GroupConfig,
    MixtureConfig,
    MoeConfig,
    OptimConfig,
    ParallelConfig,
    ScheduleConfig,
    ZLossConfig,
)


def mixture_of_experts() -> MoeConfig:
    """Router, experts, and the penalties that keep all experts in use."""
    balance = BalanceConfig(
        scope="global",
        coef=0.05,
    )
    z_loss = ZLossConfig(
        coef=1e-3,
    )
    return MoeConfig(
        num_experts=8,
        top_k=2,
        balance=balance,
        z_loss=z_loss,
    )


def optimizers() -> OptimConfig:
    """One optimizer for each group of parameters; `groups.py` says which parameter is in which group."""
    return OptimConfig(
        embedding=GroupConfig(
            lr=3e-3,
            weight_decay=0.1,
            beta2=0.95,
        ),
        head=GroupConfig(
            lr=3e-3,
            weight_decay=1.0,
        ),
        norm=GroupConfig(
            lr=3e-3,
            weight_decay=0.0,
        ),
        bias=GroupConfig(
            lr=5e-3,
            weight_decay=0.0,
        ),
        router=GroupConfig(
            optimizer="adamw",
            lr=5e-3,
            weight_decay=0.1,
        ),
        attention=GroupConfig(
            optimizer="muon",
            lr=3e-3,
            weight_decay=0.1,
            beta1=0.95,
        ),
        experts=GroupConfig(
            optimizer="muon",
            lr=3e-3,
            weight_decay=0.1,
            beta1=0.95,
        ),
    )


def data() -> DataConfig:
    """Batch, context length and mixture."""
    mixture = MixtureConfig(
        library=0.40,
        packages=0.30,
        documentation=0.20,
        encodings=0.10,
    )
    return DataConfig(
        batch_size=8,
        seq_len=64,
        mixture=mixture,
    )


def recipe() -> Recipe:
    """What the trainer runs."""
    config = TrainConfig(
        seed=1,
        steps=240,
        moe=mixture_of_experts(),
        optim=optimizers(),
        data=data(),
        schedule=ScheduleConfig(
            kind="cosine",
            warmup_steps=10,
            decay_steps=1_000,
            min_ratio=0.1,
        ),
        parallel=ParallelConfig(
            dp_size=4,
        ),
        checkpoint=CheckpointConfig(
            every=20,
        ),
    )
    parts = Parts(
        balance_loss=balance_loss,
        parameter_group=parameter_group,
        rank_positions=rank_positions,
        learning_rate=learning_rate,
        log_line=log_line,
    )
    return Recipe(config=config, parts=parts)
