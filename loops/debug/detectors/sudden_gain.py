"""A loss that improves suspiciously: it falls at once by what a training needs hundreds of steps for, and stays there.

Answers that leaked into the inputs, a mask that counts easy tokens only, or a loss that is scaled differently.
"""

from __future__ import annotations

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.location import difference_sigma, median

_LOSSES = ("lm_loss", "loss")
_WIDTH = 8  # points on either side whose medians are compared
_SETTLED = 0.25  # share of the points, and of the steps, in which every training falls fast
_AT_ONCE = 0.6  # share of the fall that happens between two neighbouring points
_MIN_FALL, _SIGMAS, _NULLS = 0.2, 10.0, 3.0  # in logarithms; in sd of a step; over the largest earlier fall


def detect(view: RunView) -> list[Finding]:
    """The largest sudden fall of the loss, when it lasts to the end."""
    name = next((name for name in _LOSSES if name in view.values), None)
    if name is None:
        return []
    steps, values = view.series(name)
    logs = np.log(np.maximum(values, 1e-12))
    settled = int(np.searchsorted(steps, steps[0] + _SETTLED * (steps[-1] - steps[0]))) if steps.size else 0
    first = max(settled, int(_SETTLED * logs.size), 2 * _WIDTH)
    if logs.size - first < 3 * _WIDTH:
        return []
    falls = _falls(logs)
    at = first + int(np.argmax(falls[first:]))
    fall = float(falls[at])
    earlier = float(np.max(falls[first // 2 : at - _WIDTH], initial=0.0))
    lasts = median(logs[at:]) <= median(logs[at - _WIDTH : at]) - 0.5 * fall
    around = logs[at - _WIDTH // 2 : at + _WIDTH // 2]
    is_sudden = float(-np.min(np.diff(around))) >= _AT_ONCE * fall
    is_new = median(logs[at : at + _WIDTH]) <= _lowest(logs[first // 2 : at]) - 0.5 * fall  # no return from a spike
    needed = max(_MIN_FALL, _SIGMAS * difference_sigma(logs[first // 2 : at]), _NULLS * earlier)
    if fall < needed or not (lasts and is_sudden and is_new):
        return []
    return [_finding(view, name, (steps, logs), at, fall)]


def _falls(logs: np.ndarray) -> np.ndarray:
    """Median of the _WIDTH points before each point less that of those from it on; 0 where there are too few."""
    windows = np.lib.stride_tricks.sliding_window_view(logs, _WIDTH)
    medians = np.median(windows, axis=1)
    falls = np.zeros(logs.size)
    falls[_WIDTH : logs.size - _WIDTH + 1] = medians[:-_WIDTH] - medians[_WIDTH:]
    return falls


def _lowest(logs: np.ndarray) -> float:
    """The lowest median of _WIDTH neighbouring points."""
    return float(np.min(np.median(np.lib.stride_tricks.sliding_window_view(logs, _WIDTH), axis=1)))


def _finding(view: RunView, name: str, points: tuple[np.ndarray, np.ndarray], at: int, fall: float) -> Finding:
    steps, logs = points
    onset = (int(steps[at - _WIDTH // 2]), int(steps[min(at + _WIDTH // 2, steps.size - 1)]))
    before, last = median(logs[at - _WIDTH : at]), int(view.steps[-1])
    return Finding(
        kind="sudden_gain",
        series=(name,),
        layers=(),
        onset=onset,
        severity=min(1.0, 0.4 + fall),
        statement=(
            f"{name} falls by {100 * -np.expm1(-fall):.0f} % at once around step {int(steps[at])} and stays there: too "
            "good to be learned"
        ),
        evidence=(series_ref(view.run_id, name, int(steps[at - _WIDTH]), last),),
        probe=Probe(
            series=(name,),
            reading=Reading.LOG_LEVEL,
            normal=(before,),
            anomalous=(before - fall,),
            noise=(max(difference_sigma(logs[:at]), 1e-3),),
            since=onset[1],
            until=last,
        ),
        specificity=33,
    )
