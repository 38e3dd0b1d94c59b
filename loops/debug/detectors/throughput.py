"""Training speed. It depends on what else the machine does, so only a clean, large, lasting step opens a case."""

from __future__ import annotations

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView

_SERIES = "tokens_per_second"
_MIN_POINTS = 20
_NOTE, _CASE = 1.3, 3.0  # ratio of speeds that is noted, and that opens a case by itself
_TIGHT = 0.15  # largest spread (interquartile range over median) of a speed that counts as steady


def detect(view: RunView) -> list[Finding]:
    """A drop at a resume between two steady speeds. A speed that wanders is the machine's, not the training's."""
    steps, values = view.series(_SERIES)
    findings = []
    for segment in view.boundaries:
        before = values[steps <= segment.start_step][-2 * _MIN_POINTS :]
        inside = (steps > segment.start_step) & (steps <= view.end_of(segment))
        after = values[inside]
        if min(before.size, after.size) < _MIN_POINTS or max(_spread(before), _spread(after)) > _TIGHT:
            continue
        ratio = float(np.median(before) / np.median(after))
        if ratio >= _NOTE:
            findings.append(_finding(view, segment.start_step, before, after, int(steps[inside][-1])))
    return findings


def _spread(values: np.ndarray) -> float:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float((high - low) / middle) if middle > 0 else np.inf


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
            noise=(max(_spread(before), 0.01),),
            since=boundary + 1,
            until=last,
        ),
        specificity=10,
        standalone=old / new >= _CASE,
    )
