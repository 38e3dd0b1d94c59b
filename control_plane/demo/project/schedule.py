"""The learning-rate schedule: a linear warmup, then a cosine down to a floor."""

from __future__ import annotations

import math

from trainer import ScheduleConfig


def cosine(progress: float) -> float:
    """Half a cosine wave: 1.0 at progress 0, 0.0 at progress 1."""
    angle = math.pi * progress
    return 0.5 * (1.0 + math.cos(angle))


def learning_rate(step: int, schedule: ScheduleConfig) -> float:
    """The factor in [0, 1] by which every group's learning rate is multiplied at `step` (counted from 0)."""
    if step < schedule.warmup_steps:
        return (step + 1) / schedule.warmup_steps

    past = step - schedule.warmup_steps
    progress = min(1.0, past / schedule.decay_steps)

    floor = schedule.min_ratio
    return floor + (1.0 - floor) * cosine(progress)
