"""Difference of two means with unequal variances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Mean of the second sample minus that of the first, with its interval."""

    mean: float
    low: float
    high: float
    stderr: float
    df: float


def welch(first: Floats, second: Floats, *, confidence: float = 0.95) -> Difference:
    """Welch (1947); at least two values each."""
    a, b = first.var(ddof=1) / first.size, second.var(ddof=1) / second.size
    variance = max(float(a + b), 1e-18)
    df = variance**2 / max(float(a**2 / (first.size - 1) + b**2 / (second.size - 1)), 1e-300)
    df = min(max(df, 1.0), float(first.size + second.size - 2))
    mean, stderr = float(second.mean() - first.mean()), float(np.sqrt(variance))
    half = float(special.stdtrit(df, 0.5 + confidence / 2)) * stderr
    return Difference(mean=mean, low=mean - half, high=mean + half, stderr=stderr, df=df)
