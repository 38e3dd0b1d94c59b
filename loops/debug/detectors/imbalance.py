"""A layer that is unbalanced from the first steps on, so that there is no change to see (R801-3.2 b).

Layers differ a little by nature: on healthy trainings the least balanced one had 1.23 times the MaxVio of the others at
most. The last layer lies next to the output space and is often high: it counts only when its penalty is high too.
"""

from __future__ import annotations

import numpy as np

from loops.debug.contrast import WARM_UP, WARM_UP_SHARE
from loops.debug.finding import Finding, layers_phrase, series_ref
from loops.debug.measure import Probe, Reading, transform
from loops.debug.view import Family, Floats, RunView, Steps
from loops.statistics.location import difference_sigma, median

_MIN_LAYERS, _MIN_POINTS = 4, 40
_APART, _ALWAYS = float(np.log(2.0)), float(np.log(1.3))  # in the middle, and at nearly every step
_SHARE = 0.9
_SECOND = float(np.log(2.0))  # of the penalty's excess over 1, for the last layer


def detect(view: RunView) -> list[Finding]:
    """At most one finding: the layers, a minority, that lie far above the others all along."""
    family = view.family("max_vio/layers.*")
    if family is None or len(family.layers) < _MIN_LAYERS:
        return []
    steps, apart, rows = _apart(view, family, Reading.LOG_LEVEL)
    if steps.size < _MIN_POINTS:
        return []
    high = [i for i, row in enumerate(apart) if median(row) >= _APART and np.mean(row >= _ALWAYS) >= _SHARE]
    high = [i for i in high if i < len(family.layers) - 1 or _has_second(view)]
    if not high or 2 * len(high) >= len(family.layers):
        return []
    layers, names = tuple(family.layers[i] for i in high), tuple(family.names[i] for i in high)
    onset, last = (int(view.steps[0]), int(steps[0])), int(steps[-1])
    ratio = float(np.exp(max(median(apart[i]) for i in high)))
    verb = "is" if len(layers) == 1 else "are"
    return [
        Finding(
            kind="imbalance",
            series=names,
            layers=layers,
            onset=onset,
            severity=min(1.0, 0.4 + 0.2 * ratio / float(np.exp(_APART))),
            statement=f"{layers_phrase(layers)} {verb} unbalanced all along: MaxVio is up to {ratio:.1f} times that of "
            "the other layers from the first steps on",
            evidence=tuple(series_ref(view.run_id, name, onset[0], last) for name in names[:8]),
            probe=Probe(
                series=names,
                reading=Reading.LOG_LEVEL,
                normal=tuple(median(rows[i] - apart[i]) for i in high),
                anomalous=tuple(median(rows[i]) for i in high),
                noise=tuple(max(difference_sigma(rows[i]), 1e-3) for i in high),
                since=onset[1],
                until=last,
            ),
            specificity=51,
        )
    ]


def _apart(view: RunView, family: Family, reading: Reading) -> tuple[Steps, Floats, Floats]:
    """Steps after the warm-up; each layer over the median of the others; the layers themselves, in logarithms."""
    complete = np.flatnonzero(np.all(np.isfinite(family.values), axis=0))
    complete = complete[max(WARM_UP, int(WARM_UP_SHARE * complete.size)) :]
    rows = transform(family.values[:, complete], reading)
    apart = np.stack([row - np.median(np.delete(rows, i, axis=0), axis=0) for i, row in enumerate(rows)])
    return view.steps[complete], apart, rows


def _has_second(view: RunView) -> bool:
    """Whether the penalty of the last layer is high too."""
    family = view.family("balance_loss/layers.*")
    if family is None or len(family.layers) < _MIN_LAYERS:
        return False
    _, apart, _ = _apart(view, family, Reading.LOG_EXCESS)
    return apart.shape[1] > 0 and median(apart[-1]) >= _SECOND
