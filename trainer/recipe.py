"""What a project hands to the trainer."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainer.config import TrainConfig
from trainer.parts import Parts


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training. A project's `recipe.py` holds `def recipe() -> Recipe`."""

    config: TrainConfig = field(default_factory=TrainConfig)
    parts: Parts = field(default_factory=Parts)
