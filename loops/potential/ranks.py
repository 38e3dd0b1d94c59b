"""Ranks of checkpoints before and after the same SFT, and how well they agree (R801-4.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import rankdata

from contracts.errors import UserInputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """Spearman's rho with its 95 % interval; `num_checkpoints` behind it."""

    rho: float
    low: float
    high: float
    num_checkpoints: int


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """One checkpoint. Rank 1 is best; ties share their average rank."""

    checkpoint: str
    base: float
    base_rank: float
    sft: float
    sft_rank: float


def ranks(scores: Floats) -> Floats:
    """1 for the highest; ties get the average rank."""
    found: Floats = rankdata(-np.asarray(scores), method="average")
    return found


def rank_table(checkpoints: Sequence[str], base: Floats, sft: Floats) -> list[RankRow]:
    """In the order of the checkpoints."""
    rows = zip(checkpoints, base.tolist(), ranks(base).tolist(), sft.tolist(), ranks(sft).tolist(), strict=True)
    return [RankRow(checkpoint=c, base=b, base_rank=p, sft=s, sft_rank=q) for c, b, p, s, q in rows]


def spearman(base: Floats, sft: Floats) -> Correlation:
    """Interval by Bonett and Wright (2000), eq. 3: atanh(rho) +- z sqrt((1 + rho^2 / 2) / (n - 3)).

    It covers the choice of checkpoints, not the noise of their scores, which pulls rho towards 0. Raises
    UserInputError for fewer than five checkpoints or equal scores throughout.
    """
    count = len(base)
    if count < 5 or np.ptp(base) == 0 or np.ptp(sft) == 0:
        raise UserInputError(
            f"rank agreement of {count} checkpoints cannot be judged",
            remedy="score at least five checkpoints that do not all tie",
        )
    rho = float(np.corrcoef(ranks(base), ranks(sft))[0, 1])
    inside = min(max(rho, -0.999999), 0.999999)
    half = float(special.ndtri(0.975)) * np.sqrt((1.0 + inside**2 / 2.0) / (count - 3))
    low, high = np.tanh(np.arctanh(inside) - half), np.tanh(np.arctanh(inside) + half)
    return Correlation(rho=rho, low=float(low), high=float(high), num_checkpoints=count)


def kendall(one: Floats, other: Floats) -> float:
    """Kendall's tau-b (1945): concordant minus discordant pairs over those that tie in neither; NaN where all tie."""
    i, j = np.triu_indices(len(one), k=1)
    a, b = np.sign(one[i] - one[j]), np.sign(other[i] - other[j])
    untied = float(np.sqrt((a != 0).sum() * (b != 0).sum()))
    return float((a * b).sum()) / untied if untied else float("nan")


def decision_accuracy(small: Floats, large: Floats) -> float:
    """Share of pairs of recipes that `small` orders as `large` does (DataDecide); a tie in `small` counts one half."""
    i, j = np.triu_indices(len(large), k=1)
    truth, guess = np.sign(large[i] - large[j]), np.sign(small[i] - small[j])
    decided = truth != 0
    return float(np.where(guess == 0, 0.5, guess == truth)[decided].mean())
