"""A run that went on from another one's checkpoint and does worse at the same steps, though nothing was changed.

Only the paired comparison shows it: unpaired, the difference drowns in the spread of seeds.
"""

from __future__ import annotations

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import SCALES, ParentView, RunView
from loops.statistics.location import difference_sigma, median
from loops.statistics.paired import sign_test_p

_LOSSES = ("lm_loss", "loss")
_MIN_PAIRS, _SAME_SIGN, _P = 10, 0.95, 1e-3
_SCALE_RATIO = 8.0  # a scaler grows by factors of two
_MIN_GAP = 0.01  # in logarithms; the noise of a mere repetition stays below it


def detect(view: RunView) -> list[Finding]:
    """At most one finding. Silent when configuration, code or seed differ: then a difference is the wish."""
    parent = view.parent
    if parent is None or _differs(view, parent):
        return []
    name = next((name for name in _LOSSES if name in view.values and name in parent.values), None)
    if name is None:
        return []
    steps, here = view.series(name)
    there_steps, there = parent.series(name)
    common, mine, theirs = np.intersect1d(steps, there_steps, return_indices=True)
    later = common > parent.step + 1
    pair = np.log(np.maximum(here[mine[later]], 1e-12)), np.log(np.maximum(there[theirs[later]], 1e-12))
    return _judge(view, name, common[later], *pair)


def _differs(view: RunView, parent: ParentView) -> bool:
    if not view.segments:
        return False
    first = view.segments[0]
    return (first.code_version, first.seed, dict(first.declared)) != parent.setting


def _scaler(view: RunView) -> str:
    """What shows that the loss scaler began anew, else nothing."""
    for name in SCALES:
        if view.parent is not None and name in view.values and name in view.parent.values:
            (steps, here), (there_steps, there) = view.series(name), view.parent.series(name)
            before = there[there_steps <= view.parent.step]
            if here.size and before.size and before[-1] > 0 and here[0] >= _SCALE_RATIO * before[-1]:
                return f" (at step {int(steps[0])} {name} is {here[0]:.3g}, it had come to {before[-1]:.3g})"
    return ""


def _judge(view: RunView, name: str, steps: np.ndarray, here: np.ndarray, there: np.ndarray) -> list[Finding]:
    gaps = here - there
    higher = int(np.sum(gaps > 0.0))
    if gaps.size < _MIN_PAIRS or higher < _SAME_SIGN * gaps.size or sign_test_p(higher, gaps.size) > _P:
        return []
    thirds = [median(part) for part in np.array_split(gaps, 3)]
    if min(thirds) < _MIN_GAP:
        return []
    percent = 100.0 * np.expm1(median(gaps))
    onset, last = (int(steps[0]), int(steps[min(2, steps.size - 1)])), int(steps[-1])
    text = f"{name} lies above the run that it goes on from at {higher} of {gaps.size} common steps, by {percent:.1f} %"
    return [
        Finding(
            kind="fork_departure",
            series=(name,),
            layers=(),
            onset=onset,
            severity=min(1.0, 0.3 + 5.0 * median(gaps)),
            statement=text + f", though nothing was changed, as where not everything was restored{_scaler(view)}",
            evidence=(series_ref(view.run_id, name, onset[0], last),),
            probe=Probe(
                series=(name,),
                reading=Reading.LOG_LEVEL,
                normal=(median(there),),
                anomalous=(median(here),),
                noise=(max(difference_sigma(gaps), 1e-3),),
                since=onset[0],
                until=last,
            ),
            specificity=50,
        )
    ]
