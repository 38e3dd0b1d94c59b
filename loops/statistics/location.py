"""Robust location, scale and slope. Non-finite values are the caller's to remove."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Makes the median absolute deviation estimate the standard deviation of normal data: 1 / Phi^-1(3/4).
# Rousseeuw and Croux (1993), Alternatives to the Median Absolute Deviation, section 1.
MAD_TO_SIGMA = 1.4826


def median(values: Floats) -> float:
    """Median of a one-dimensional array with at least one value; several times faster than numpy's on short ones."""
    ordered = np.sort(values)
    return float(ordered[(ordered.size - 1) // 2] + ordered[ordered.size // 2]) / 2.0


def robust_sigma(values: Floats) -> float:
    """Median absolute deviation from the median, scaled to a standard deviation; 0.0 for fewer than two values."""
    if values.size < 2:
        return 0.0
    return MAD_TO_SIGMA * median(np.abs(values - median(values)))


def difference_sigma(values: Floats) -> float:
    """Step-to-step noise of a series that may drift: robust sigma of the first differences over sqrt(2).

    Drift cancels in differences (von Neumann et al. 1941, the mean square successive difference).
    """
    if values.size < 3:
        return 0.0
    return robust_sigma(np.diff(values)) / float(np.sqrt(2.0))


def theil_sen(x: Floats, y: Floats) -> tuple[float, float]:
    """(slope, intercept): median of the slopes of all pairs (Sen 1968, eq. 3.2) and median of y - slope * x.

    Stands up to 29 % of outliers. A single point, or equal x, gives slope 0.
    """
    left, right = np.triu_indices(x.size, k=1)
    run = x[right] - x[left]
    rises = (y[right] - y[left])[run != 0] / run[run != 0]
    slope = median(rises) if rises.size else 0.0
    return slope, median(y - slope * x)


def resistant_line(x: Floats, y: Floats) -> tuple[float, float]:
    """(slope, intercept) through the medians of the outer thirds (Tukey 1977, chapter 5); O(n), for ascending x.

    Stands up to about 16 % of outliers. Fewer than three points give slope 0.
    """
    third = x.size // 3
    if third == 0:
        return 0.0, median(y)
    run = median(x[-third:]) - median(x[:third])
    slope = (median(y[-third:]) - median(y[:third])) / run if run else 0.0
    return slope, median(y - slope * x)


def running_median(values: Floats, width: int) -> Floats:
    """Centred running median of odd `width`; shorter windows at both ends. Same length as `values`."""
    half = width // 2
    padded = np.concatenate([np.full(half, np.nan), values, np.full(half, np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.asarray(np.nanmedian(windows, axis=1), dtype=np.float64)
