"""Points of many series as parallel arrays: what both tiers read into and write from.

A point is (series, segment, step, value). The same step may be logged again with another value: both are kept, in
order of arrival, and the last one counts. The same value again is a replay and adds nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FIRST_STEP, LAST_STEP = -(2**63), 2**63 - 1


class Spans(NamedTuple):
    """The inclusive steps that groups of points of one (series, segment) cover: parallel arrays."""

    series: NDArray[np.int32]
    segments: NDArray[np.int32]
    los: NDArray[np.int64]
    his: NDArray[np.int64]

    def parameters(self) -> dict[str, list[int]]:
        """Query parameters."""
        return {name: getattr(self, name).tolist() for name in self._fields}


@dataclass(frozen=True, kw_only=True)
class Points:
    """Parallel arrays, one entry a point."""

    series: NDArray[np.int32]
    segments: NDArray[np.int32]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, index: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Points:
        return Points(
            series=self.series[index],
            segments=self.segments[index],
            steps=self.steps[index],
            values=self.values[index],
        )

    @classmethod
    def of(cls, series: int, segment: int, steps: NDArray[np.int64], values: NDArray[np.float64]) -> Points:
        """Points of one (series, segment)."""
        n = len(steps)
        return cls(
            series=np.full(n, series, np.int32), segments=np.full(n, segment, np.int32), steps=steps, values=values
        )

    @classmethod
    def join(cls, parts: Sequence[Points]) -> Points:
        """One after the other: what stands later arrived later."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of(0, 0, np.empty(0, np.int64), np.empty(0, np.float64))
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def same(self, other: Points) -> bool:
        """The same points in the same order, bit for bit."""
        columns = [field.name for field in dataclasses.fields(self)]
        return len(self) == len(other) and all(
            getattr(self, name).tobytes() == getattr(other, name).tobytes() for name in columns
        )

    def between(self, lo: int, hi: int) -> Points:
        """Those with steps in [lo, hi]."""
        if (lo, hi) == (FIRST_STEP, LAST_STEP):
            return self
        return self.where((self.steps >= lo) & (self.steps <= hi))

    def where(self, mask: NDArray[np.bool_]) -> Points:
        return self if mask.all() else self.take(mask)

    def distinct(self) -> Points:
        """Sorted by (series, segment, step), then arrival; a value that was there at that step already is left out."""
        points = self if self._is_sorted() else self.take(np.lexsort((self.steps, self.segments, self.series)))
        again = np.append(False, points._same_key())
        if not again.any():
            return points
        key = np.cumsum(~again)
        rows = np.flatnonzero(again | np.append(again[1:], False))
        bits = points.values[rows].view(np.uint64)
        order = np.lexsort((rows, bits, key[rows]))
        key, bits = key[rows][order], bits[order]
        replayed = (key[1:] == key[:-1]) & (bits[1:] == bits[:-1])
        keep = np.ones(len(points), dtype=np.bool_)
        keep[rows[order[1:][replayed]]] = False
        return points.take(keep)

    def bounds(self) -> NDArray[np.intp]:
        """Where the groups of equal (series, segment) of sorted points begin, and the end of the last one."""
        change = (np.diff(self.series) != 0) | (np.diff(self.segments) != 0)
        return np.concatenate([[0], np.flatnonzero(change) + 1, [len(self)]]) if len(self) else np.zeros(1, np.intp)

    def spans(self) -> Spans:
        """Where the groups of sorted points lie."""
        bounds = self.bounds()
        first, last = bounds[:-1], bounds[1:] - 1
        return Spans(self.series[first], self.segments[first], self.steps[first], self.steps[last])

    def _is_sorted(self) -> bool:
        series, segments, steps = np.diff(self.series), np.diff(self.segments), np.diff(self.steps)
        return bool(((series > 0) | (series == 0) & ((segments > 0) | (segments == 0) & (steps >= 0))).all())

    def _same_key(self) -> NDArray[np.bool_]:
        """For each point but the first: has it the (series, segment, step) of the one before?"""
        same: NDArray[np.bool_] = self.steps[1:] == self.steps[:-1]
        same &= (self.segments[1:] == self.segments[:-1]) & (self.series[1:] == self.series[:-1])
        return same
