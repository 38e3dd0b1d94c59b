"""The order of the data: samples that are read again although the epoch is not over (R801-3.20)."""

from __future__ import annotations

import numpy as np

from loops.debug.finding import Finding, series_ref, steps_phrase
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView

_SERIES = "repeated_samples"
_BEFORE = 10  # steps without a repeat that show that the epoch was not over


def detect(view: RunView) -> list[Finding]:
    """Repeats that begin right after a resume. An epoch that ends begins to repeat anywhere, and is no finding."""
    steps, values = view.series(_SERIES)
    for segment in view.boundaries:
        before = values[steps <= segment.start_step]
        inside = (steps > segment.start_step) & (steps <= view.end_of(segment))
        if before[-_BEFORE:].size < _BEFORE or before[-_BEFORE:].any() or not (values[inside] > 0).any():
            continue
        first = int(steps[inside][np.argmax(values[inside] > 0)])
        if first - segment.start_step <= max(5, int(0.1 * inside.sum())):
            return [_finding(view, segment.start_step, first, values[inside], int(steps[inside][-1]))]
    return []


def _finding(view: RunView, boundary: int, first: int, repeats: np.ndarray, last: int) -> Finding:
    share = float(np.mean(repeats > 0))
    mean = float(np.mean(repeats))
    onset = (boundary + 1, first)
    return Finding(
        kind="data_order",
        series=(_SERIES,),
        layers=(),
        onset=onset,
        severity=min(1.0, 0.5 + 0.5 * share),
        statement=(
            f"samples are read again {steps_phrase(onset)} although the epoch is not over: "
            f"{int(repeats.sum())} repeats in {repeats.size} steps"
        ),
        evidence=(series_ref(view.run_id, _SERIES, boundary, last),),
        probe=Probe(
            series=(_SERIES,),
            reading=Reading.LEVEL,
            normal=(0.0,),
            anomalous=(mean,),
            noise=(0.1,),
            since=first,
            until=last,
        ),
        specificity=95,
    )
