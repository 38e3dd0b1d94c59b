"""Fewer points for a plot without hiding anything: deterministic, and zooming in shows more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def keep_shape(steps: NDArray[np.int64], values: NDArray[np.float64], buckets: int) -> NDArray[np.intp]:
    """Indices to keep of points with ascending steps.

    Of each of `buckets` equally wide intervals of steps: the first and last point, the smallest and largest finite
    value (of equal ones the first), and every non-finite one. Everything is kept when it is no more than four points
    a bucket.
    """
    n = len(steps)
    if n <= 4 * buckets:
        return np.arange(n)
    first, span = int(steps[0]), int(steps[-1]) - int(steps[0]) + 1
    edges = [first + bucket * span // buckets for bucket in range(buckets)]
    bounds = np.unique(np.append(np.searchsorted(steps, edges), n))
    odd = np.flatnonzero(~np.isfinite(values))
    low, high = values, values
    if len(odd):
        low, high = values.copy(), values.copy()
        low[odd], high[odd] = np.inf, -np.inf
    starts, sizes = bounds[:-1], np.diff(bounds)
    kept = [starts, bounds[1:] - 1, odd]
    for each, extremes in ((low, np.minimum.reduceat(low, starts)), (high, np.maximum.reduceat(high, starts))):
        equal = np.flatnonzero(each == np.repeat(extremes, sizes))
        kept.append(equal[np.searchsorted(equal, starts)])
    return np.unique(np.concatenate(kept))
