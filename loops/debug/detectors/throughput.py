"""Training speed. It depends on what else the machine does, so only a clean, lasting step at a resume opens a case.

How large a step must be follows from the spread of the run's own step times, on both sides of the resume.
"""

from __future__ import annotations

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.location import median, robust_sigma

_SERIES = "tokens_per_second"
_MIN_POINTS = 20
_MIN_RATIO, _MIN_SIGMAS = 1.3, 6.0  # a step is noted when it is at least this large, in ratio and in robust sd
_APART = 0.9  # share of the steps before that must be faster than this share of those after: clear separation
_SWING = 2.5  # other processes make a machine this much slower for a while


def detect(view: RunView) -> list[Finding]:
    """A drop at a resume between two steady speeds. A speed that wanders is the machine's, not the training's."""
    steps, values = view.series(_SERIES)
    findings = []
    for segment in view.boundaries:
        before = values[steps <= segment.start_step][-2 * _MIN_POINTS :]
        inside = (steps > segment.start_step) & (steps <= view.end_of(segment))
        after = values[inside]
        if min(before.size, after.size) < _MIN_POINTS or min(before.min(), after.min()) <= 0.0:
            continue
        drop, sigma = _drop(before, after)
        if drop >= np.log(_MIN_RATIO) and drop >= _MIN_SIGMAS * sigma:
            findings.append(_finding(view, segment.start_step, before, after, int(steps[inside][-1])))
    return findings


def _drop(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Fall of the median speed and the larger robust sd of the two sides, both in logarithms."""
    old, new = np.log(before), np.log(after)
    return median(old) - median(new), max(robust_sigma(old), robust_sigma(new))


def _opens_case(before: np.ndarray, after: np.ndarray) -> bool:
    """Larger than what other processes do to a machine, at once, to the end, and clearly apart from all before."""
    quarters = [median(part) for part in np.array_split(after, 4)]
    lasts = max(quarters) * _SWING <= median(before)
    return lasts and bool(np.quantile(before, 1.0 - _APART) > np.quantile(after, _APART))


def _finding(view: RunView, boundary: int, before: np.ndarray, after: np.ndarray, last: int) -> Finding:
    old, new = float(np.median(before)), float(np.median(after))
    return Finding(
        kind="throughput",
        series=(_SERIES,),
        layers=(),
        onset=(boundary + 1, boundary + 1),
        severity=min(1.0, 1.0 - new / old),
        statement=f"the speed falls from {old:.0f} to {new:.0f} tokens per second at step {boundary + 1}, for good",
        evidence=(series_ref(view.run_id, _SERIES, boundary - before.size, last),),
        probe=Probe(
            series=(_SERIES,),
            reading=Reading.LOG_LEVEL,
            normal=(float(np.log(old)),),
            anomalous=(float(np.log(new)),),
            noise=(max(_drop(before, after)[1], 0.01),),
            since=boundary + 1,
            until=last,
        ),
        specificity=10,
        standalone=_opens_case(before, after),
    )
