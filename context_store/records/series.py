"""Points of series as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class SeriesData:
    """Points of one series: parallel arrays, ascending (step, segment). Values are exact, NaN and infinities too."""

    name: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    segments: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class SeriesMatrix:
    """Several series on the union of their steps: `steps` [S], `values` [N, S], `present` [N, S].

    A point that was never logged is NaN in `values` and False in `present`; a logged NaN is present.
    """

    names: tuple[str, ...]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    present: NDArray[np.bool_]
