"""How far a series leaves the course it was on, at a boundary where something may have changed.

Training statistics drift while nothing is wrong, and they may flatten at any time. So the course after a boundary is
a cone: from "stays at its level" to "goes on with its slope" (a resistant line through the steps before, held for the
same number of steps). Only what lies outside the cone counts as deviation. How far a healthy series of this very run
leaves such a cone is measured at earlier points of the run, where the same question has the answer "nothing".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loops.debug.measure import Probe, Reading, transform
from loops.debug.view import RunView
from loops.statistics.change_point import least_squares_split
from loops.statistics.location import difference_sigma, median, resistant_line

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

HISTORY = 40  # steps before a boundary that set the course
MIN_BEFORE, MIN_AFTER = 12, 8  # fewer points than these cannot be judged
STRIDE = 5  # distance of the earlier points at which "nothing" is measured
WARM_UP, WARM_UP_SHARE = 20, 0.25  # first points of a training, when everything moves: this many, or this share


@dataclass(frozen=True, kw_only=True)
class Place:
    """Steps boundary + 1 .. end are compared with those before. `strictness` multiplies what a detector demands."""

    boundary: int
    end: int
    strictness: float = 1.0


def places(view: RunView) -> list[Place]:
    """Where a change may have taken effect: each resume; in a run without one, points spread over its steps."""
    if view.boundaries:
        return [Place(boundary=s.start_step, end=view.end_of(s)) for s in view.boundaries]
    if view.steps.size < 2 * HISTORY:
        return []
    picks = [view.steps[int(view.steps.size * share)] for share in (0.4, 0.5, 0.6, 0.7, 0.8)]
    return [Place(boundary=int(step), end=int(view.steps[-1]), strictness=1.5) for step in picks]


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One series at one boundary, in the unit it was given in (values or logarithms).

    `shift`: median deviation over the second half after the boundary, signed. `null`: the largest absolute shift, of
    the same window lengths, at earlier points. `sigma`: step noise. `normal`, `anomalous`: level before and after.
    `persistence`: share of the steps of that half that deviate by at least a third of the shift.
    """

    shift: float
    null: float
    sigma: float
    normal: float
    anomalous: float
    persistence: float
    steps: Steps = field(repr=False)  # those after the boundary
    deviation: Floats = field(repr=False)  # at these steps

    @cached_property
    def onset(self) -> tuple[int, int]:
        """Interval of the first deviating step; a change at a boundary cannot show before it."""
        split = least_squares_split(np.concatenate([np.zeros(MIN_AFTER), self.deviation]), margin=3)
        if split is None:
            return int(self.steps[0]), int(self.steps[0])
        low, high = (min(max(k - MIN_AFTER, 0), self.deviation.size - 1) for k in (split.low, split.high))
        return int(self.steps[low]), int(self.steps[high])

    @property
    def strength(self) -> float:
        """Shift in units of what is usual here: the larger of null and the noise of a median of 8 steps."""
        return abs(self.shift) / max(self.null, self.sigma / 2.0, 1e-12)


def contrast(steps: Steps, values: Floats, *, boundary: int, end: int) -> Contrast | None:
    """Compare the steps boundary + 1 .. end with the course before. None when there are too few points."""
    before, after = steps <= boundary, (steps > boundary) & (steps <= end)
    if before.sum() < MIN_BEFORE or after.sum() < MIN_AFTER:
        return None
    num_after, at = int(after.sum()), int(before.sum())
    deviation = _deviation(values, at, num_after)
    half = deviation[num_after // 2 :]
    shift = median(half)
    history = values[max(0, at - HISTORY) : at]
    persistence = float(np.mean(half * np.sign(shift) >= abs(shift) / 3.0)) if shift else 0.0
    return Contrast(
        shift=shift,
        null=_null(values[:at], num_after),
        sigma=max(difference_sigma(history), 1e-9),
        normal=median(history),
        anomalous=median(values[at + num_after // 2 : at + num_after]),
        persistence=persistence,
        steps=steps[at : at + num_after],
        deviation=deviation,
    )


def _deviation(values: Floats, at: int, num_after: int) -> Floats:
    """Signed distance of values[at : at + num_after] from the cone set by the HISTORY values before `at`."""
    history = values[max(0, at - HISTORY) : at]
    x = np.arange(-history.size, 0, dtype=np.float64)
    slope, intercept = resistant_line(x, history)
    ahead = np.minimum(np.arange(num_after, dtype=np.float64), float(history.size))
    level, course = median(history), intercept + slope * ahead
    low, high = np.minimum(level, course), np.maximum(level, course)
    observed = values[at : at + num_after]
    return np.asarray(np.maximum(observed - high, 0.0) + np.minimum(observed - low, 0.0), dtype=np.float64)


def _null(values: Floats, num_after: int) -> float:
    """Largest absolute shift at earlier points with at least MIN_AFTER values behind them; 0.0 when there are none."""
    settled = values[min(max(WARM_UP, int(WARM_UP_SHARE * values.size)), values.size) :]
    shifts = [0.0]
    for at in range(MIN_BEFORE, settled.size - MIN_AFTER + 1, STRIDE):
        deviation = _deviation(settled, at, min(num_after, settled.size - at))
        shifts.append(abs(median(deviation[deviation.size // 2 :])))
    return max(shifts)


def probe_at(view: RunView, names: tuple[str, ...], reading: Reading, place: Place, since: int) -> Probe:
    """A probe on `names`, series of the run with points on both sides, as they were before and after a place."""
    normal, anomalous, noise = [], [], []
    for name in names:
        steps, values = view.series(name)
        scaled = transform(values, reading)
        before, after = (
            scaled[steps <= place.boundary][-HISTORY:],
            scaled[(steps > place.boundary) & (steps <= place.end)],
        )
        developed = after[after.size // 2 :]
        if reading is Reading.SLOPE:
            before, developed = np.diff(before), np.diff(after)
        normal.append(median(before))
        anomalous.append(median(developed))
        noise.append(max(difference_sigma(before), 1e-6 if reading is Reading.SLOPE else 1e-3))
    return Probe(
        series=names,
        reading=reading,
        normal=tuple(normal),
        anomalous=tuple(anomalous),
        noise=tuple(noise),
        since=since,
        until=place.end,
    )
