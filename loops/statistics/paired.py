"""Paired comparisons: the same steps, samples or seeds under two conditions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PairedEffect:
    """Mean of the differences with a 95 % interval; `num_pairs` differences."""

    mean: float
    low: float
    high: float
    num_pairs: int


def block_bootstrap(
    differences: Floats, *, rng: np.random.Generator, block: int = 5, rounds: int = 400
) -> PairedEffect:
    """Mean of a serially dependent difference series, interval by the moving-block bootstrap (Kuensch 1989).

    The interval covers the step-to-step variation inside these runs; it says nothing about other seeds.
    """
    size = differences.size
    width = min(block, size)
    starts = rng.integers(0, size - width + 1, size=(rounds, -(-size // width)))
    index = (starts[..., None] + np.arange(width)).reshape(rounds, -1)[:, :size]
    means = differences[index].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return PairedEffect(mean=float(differences.mean()), low=float(low), high=float(high), num_pairs=size)


def t_interval(differences: Floats) -> PairedEffect:
    """Mean of independent differences with Student's 95 % interval (Student 1908). Needs at least two pairs."""
    size = differences.size
    half = special.stdtrit(size - 1, 0.975) * differences.std(ddof=1) / np.sqrt(size)
    mean = float(differences.mean())
    return PairedEffect(mean=mean, low=mean - float(half), high=mean + float(half), num_pairs=size)


def sign_test_p(num_positive: int, num_pairs: int) -> float:
    """Two-sided exact sign test: binomial(n, 1/2) (Arbuthnott 1710). Ties are the caller's to drop."""
    rarer = min(num_positive, num_pairs - num_positive)
    return min(1.0, 2.0 * float(special.bdtr(rarer, num_pairs, 0.5))) if num_pairs else 1.0
