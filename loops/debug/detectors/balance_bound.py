"""A load-balance loss below 1, its least value: E * sum_e load_e * prob_e with loads that follow the probabilities
(Fedus et al. 2021, Switch Transformer, eq. 4; 1.0 at perfect balance). Below it the loss counts something else.
"""

from __future__ import annotations

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import Floats, RunView, Steps
from loops.statistics.location import difference_sigma, median

_STATISTIC = "balance_loss"
_BOUND = 0.9  # top-k loads of few tokens come down to 0.97 by chance
_KEPT = 0.97  # what the run must have shown before: some trainers scale this loss otherwise all along
_LASTING = 12  # points on either side


def detect(view: RunView) -> list[Finding]:
    """At most one finding: the series that fall below the bound for good, at the first of them."""
    names = sorted(name for name in view.values if name.partition("/")[0] == _STATISTIC)
    starts = {name: at for name in names if (at := _start(*view.series(name))) is not None}
    return [_finding(view, starts)] if starts else []


def _start(steps: Steps, values: Floats) -> int | None:
    """Index of the first of the points that lie below the bound to the end; None unless all was well before."""
    above = np.flatnonzero(values >= _BOUND)
    at = int(above[-1]) + 1 if above.size else 0
    is_new = at >= _LASTING and median(values[at - _LASTING : at]) >= _KEPT
    return at if is_new and steps.size - at >= _LASTING else None


def _finding(view: RunView, starts: dict[str, int]) -> Finding:
    name = min(starts, key=lambda each: (starts[each], len(each)))
    steps, values = view.series(name)
    at = starts[name]
    onset, last = (int(steps[at - 1]) + 1, int(steps[at])), int(steps[-1])
    before, after = median(values[at - _LASTING : at]), median(values[at:])
    return Finding(
        kind="invariant",
        series=(name, *(other for other in starts if other != name)),
        layers=(),
        onset=onset,
        severity=0.7,
        statement=(
            f"{name} falls from {before:.3g} to {after:.3g} at step {onset[1]} and stays there: it cannot lie below 1, "
            "so that it no longer measures the balance"
        ),
        evidence=tuple(series_ref(view.run_id, each, onset[0] - 1, last) for each in list(starts)[:8]),
        probe=Probe(
            series=(name,),
            reading=Reading.LOG_LEVEL,
            normal=(float(np.log(before)),),
            anomalous=(float(np.log(after)),),
            noise=(max(difference_sigma(np.log(values[:at])), 1e-3),),
            since=onset[1],
            until=last,
        ),
        specificity=72,
    )
