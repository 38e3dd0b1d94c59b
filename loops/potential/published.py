"""Numbers that the report gives about its own models: reference data, recomputed in tests, never results of ours.

Values that are not in its text are not here (R801-4.6 to 4.8, R801-4.12, R801-9.11 to 9.13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two checkpoints of one run, by training step, and what changed between them in points."""

    steps: tuple[int, int]
    base: float
    sft: float
    verdict: str


PAIRS: Sequence[Pair] = (
    Pair(steps=(159_000, 210_000), base=-0.65, sft=0.61, verdict="false_plateau"),
    Pair(steps=(240_000, 243_000), base=-0.49, sft=0.21, verdict="false_degradation"),
)
SFT_GAINS: Mapping[str, tuple[float, float]] = {"Stage1-1": (65.34, 66.83), "Stage1-3": (70.54, 72.93)}
SPEARMAN: Mapping[str, tuple[float, int]] = {"Stage1-1": (0.796, 13), "Stage1-2/1-3": (0.438, 10)}  # rho, checkpoints
SLOPES: Mapping[str, tuple[float, float]] = {"BFCL Full": (8.62, 3.33), "SWE-bench Pro": (9.15, 5.03)}  # 801, Qwen3

BASE_AVG: Mapping[str, float] = {
    "Qwen3.5-35B-A3B": 76.67,
    "801": 73.13,
    "Nemotron-3.5-Lightning-30B-A3B": 73.07,
    "Nemotron-3-Nano-30B-A3B": 68.49,
    "Qwen3-30B-A3B": 66.16,
    "Kimi-Linear-48B-A3B": 64.37,
    "Gemma-4-26B-A4B*": 55.73,  # several set-ups tried, the best per benchmark taken
}
SAME_SFT: Mapping[str, tuple[float, float]] = {  # AVG5, AVG13
    "801": (28.70, 81.34),
    "Qwen3.5-35B-A3B": (20.54, 83.76),
    "Nemotron-3-Nano-30B-A3B": (13.48, 78.82),
    "Qwen3-30B-A3B": (11.36, 78.27),
    "Nemotron-3.5-Lightning-30B-A3B": (10.54, 79.88),
    "Gemma-4-26B-A4B*": (10.72, 63.48),
}
AGENTS: Mapping[str, tuple[float, float, float, float]] = {  # SWE-bench Verified, Pro, CyberGym, KernelBench
    "Qwen3-30B-A3B-Thinking-2507": (20.30, 7.01, 1.19, 5.60),
    "Qwen3.5-35B-A3B": (69.10, 39.23, 13.47, 17.20),
    "Qwen3.6-35B-A3B": (71.65, 45.28, 24.22, 37.20),
    "K2-Horizon-MoVA-36B-A4B": (64.15, 44.19, 39.35, 33.60),
    "Gemma-4-26B-A4B-it": (57.15, 34.57, 8.49, 44.00),
    "Nemotron-3.5-Lightning-30B-A3B": (55.35, 32.49, 8.29, 20.40),
    "Flint-40B-A2.5B": (72.80, 53.01, 33.91, 41.20),
    "801": (68.95, 48.29, 38.90, 77.60),
}


def without(scores: Sequence[float], left_out: int) -> float:
    """The mean without one benchmark."""
    kept = [score for index, score in enumerate(scores) if index != left_out]
    return sum(kept) / len(kept)
