"""The recipe of the tiny SFT by its content: equal digests, equal SFT (R801-4.2, 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

from context_store.canonical import content_hash
from loops.evals.protocol import protocol
from loops.evals.tasks import generated

# Shares of the report's 6.33B tokens: math, science and code about 2.00B each, instruction following 0.331B.
SHARES: Mapping[str, float] = {"math": 0.316, "science": 0.316, "code": 0.316, "instruction": 0.052}
SHARE_TOLERANCE = 0.001
DIRECT = "0_shot_direct"  # the protocol whose form the examples have


@dataclass(frozen=True, kw_only=True)
class SftRecipe:
    """`num_bytes` of prompts and answers in the given shares, and the budget: so many steps of `batch_size` rows.

    `epochs`: by stage of the checkpoint, as early ones obey instructions weakly; the steps are multiplied by it.
    `lr_scale` multiplies the trainer's default learning rates. `marks`: shares of the steps after which the tuned model
    is scored for learnability.
    """

    num_bytes: int = 200_000
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))
    data_seed: int = 1000
    steps: int = 64
    batch_size: int = 8
    seq_len: int = 128
    lr_scale: float = 0.5
    epochs: Mapping[str, int] = field(default_factory=dict)  # stage name -> times the steps; 1 for others
    marks: tuple[float, ...] = (0.0625, 0.125, 0.25, 0.5, 1.0)

    @cached_property
    def digest(self) -> str:
        return content_hash([asdict(self), generated.VERSION, protocol(DIRECT).digest])

    def steps_in(self, stage: str) -> int:
        return self.steps * self.epochs.get(stage, 1)

    def marks_in(self, stage: str) -> tuple[int, ...]:
        """SFT steps after which the model is scored."""
        steps = self.steps_in(stage)
        return tuple(sorted({max(1, round(mark * steps)) for mark in self.marks}))
