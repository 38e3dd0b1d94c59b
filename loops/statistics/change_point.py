"""One change-point of one series, with an interval for where it lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

_HALF_CHI2 = float(special.chdtri(1, 0.05)) / 2.0


@dataclass(frozen=True, kw_only=True)
class Split:
    """`index` is the first value of the new regime; `low`..`high` (inclusive) is its 95 % likelihood interval.

    `shape` says which model fits better: a step, or a ramp that begins at `index`. `gain` is the share of the
    variance around the mean that the change explains, 0..1.
    """

    index: int
    low: int
    high: int
    shape: str
    gain: float


def least_squares_split(values: Floats, *, margin: int = 3) -> Split | None:
    """Best single change of `values`: a step in the mean, or a straight ramp that begins somewhere.

    For each candidate the residual sum of squares of both models is minimised in closed form. The interval keeps each
    candidate whose profile log-likelihood, under the better of the two models, lies within chi2(1; 0.95) / 2 of the
    best (Siegmund 1988, Confidence sets in change-point problems, section 2). None when there are fewer than
    2 * margin values or no variance.
    """
    size = values.size
    values = values - values.mean() if size else values
    total = float(np.sum(values**2))
    if size < 2 * margin or total <= 0.0:
        return None
    candidates = np.arange(margin, size - margin + 1)
    steps = _step_residuals(values, candidates)
    ramps = np.array([_ramp_residual(values, int(k)) for k in candidates])
    residuals = np.minimum(steps, ramps)
    best = int(np.argmin(residuals))
    variance = max(float(residuals[best]) / size, 1e-12 * total)
    inside = candidates[(residuals - residuals[best]) / (2.0 * variance) <= _HALF_CHI2]
    return Split(
        index=int(candidates[best]),
        low=int(inside.min()),
        high=int(inside.max()),
        shape="step" if steps[best] <= ramps[best] else "ramp",
        gain=1.0 - float(residuals[best]) / total,
    )


def _step_residuals(values: Floats, candidates: NDArray[np.intp]) -> Floats:
    """Residual sum of squares of two means, for each candidate, by prefix sums."""
    size = values.size
    sums = np.concatenate([[0.0], np.cumsum(values)])[candidates]
    before, after = candidates, np.maximum(size - candidates, 1)
    rest = values.sum() - sums
    return np.asarray(np.sum(values**2) - sums**2 / before - np.where(size > candidates, rest**2 / after, 0.0))


def _ramp_residual(values: Floats, k: int) -> float:
    """Level before k, then a straight line that starts at that level one step before k."""
    hinge = np.maximum(0.0, np.arange(values.size) - (k - 1.0))
    design = np.column_stack([np.ones(values.size), hinge])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    return float(np.sum((values - design @ solution) ** 2))
