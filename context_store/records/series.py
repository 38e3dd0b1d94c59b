"""Points of series as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class SeriesData:
    """Points of one series: parallel arrays, ascending (step, segment). Values are exact, NaN and infinities too."""

    name: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    segments: NDArray[np.int32]

    def frame(self) -> pd.DataFrame:
        """Columns `step`, `segment` and `value`."""
        import pandas as pd

        return pd.DataFrame({"step": self.steps, "segment": self.segments, "value": self.values})


@dataclass(frozen=True, kw_only=True)
class SeriesMatrix:
    """Several series on the union of their steps: `steps` [S], `values` [N, S], `present` [N, S].

    A point that was never logged is NaN in `values` and False in `present`; a logged NaN is present.
    """

    names: tuple[str, ...]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    present: NDArray[np.bool_]

    def frame(self) -> pd.DataFrame:
        """One column a series, indexed by step; NaN also where nothing was logged."""
        import pandas as pd

        return pd.DataFrame(self.values.T, index=pd.Index(self.steps, name="step"), columns=list(self.names))


@dataclass(frozen=True, kw_only=True)
class StatisticMatrix(SeriesMatrix):
    """One statistic across a run, by (layer, expert, rank, module), and where each row stands in the model."""

    statistic: str
    modules: tuple[str, ...]
    layers: tuple[int | None, ...]
    experts: tuple[int | None, ...]
    ranks: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class NonFinite:
    """The first NaN or infinity of a series."""

    name: str
    layer: int | None
    step: int
    segment: int
    value: float


@dataclass(frozen=True, kw_only=True)
class AlignedWindows:
    """Series around changes, on one axis: `offsets` [W] from -before to after, `values` and `present` [C, N, W].

    `steps` [C] are those of the changes; offset 0 is the change's own step.
    """

    names: tuple[str, ...]
    steps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    values: NDArray[np.float64]
    present: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What was deleted, or in a dry run would be. `size_bytes`: of the points' own compressed data."""

    run_id: str
    num_points: int
    num_chunks: int
    size_bytes: int
