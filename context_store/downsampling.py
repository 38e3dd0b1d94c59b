"""Fewer points for a plot without hiding anything: deterministic, and zooming in shows more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def keep_shape(steps: NDArray[np.int64], values: NDArray[np.float64], buckets: int) -> NDArray[np.intp]:
    """Indices to keep of points with ascending steps.

    Of each of `buckets` equally wide intervals of steps: the first and last point, the smallest and largest finite
    value, and every non-finite one. Everything is kept when it is no more than four points a bucket.
    """
    n = len(steps)
    if n <= 4 * buckets:
        return np.arange(n)
    span = int(steps[-1]) - int(steps[0]) + 1
    bucket = ((steps - steps[0]).astype(np.float64) * (buckets / span)).astype(np.int64)
    starts = np.flatnonzero(np.diff(bucket, prepend=-1))
    ends = np.append(starts[1:], n) - 1
    finite = np.isfinite(values)
    lowest = np.lexsort((np.where(finite, values, np.inf), bucket))[starts]
    highest = np.lexsort((np.where(finite, values, -np.inf), bucket))[ends]
    kept = np.concatenate([starts, ends, lowest, highest, np.flatnonzero(~finite)])
    return np.unique(kept)
