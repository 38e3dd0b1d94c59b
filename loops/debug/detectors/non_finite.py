"""NaN and infinity. A loss scaler that finds its level makes the first gradients infinite: that is no finding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contracts.names import SeriesName
from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import SCALES, RunView

_LOSSES = frozenset({"loss", "lm_loss"})
_STATE = frozenset({"weight_norm"})  # once a weight is not finite, training is over
_EVALUATIONS = ("eval", "val")
_SETTLED = 20  # steps after which a single infinite gradient would be news
_LASTING = 3  # consecutive non-finite points that make a finding of any statistic


def detect(view: RunView) -> list[Finding]:
    """One finding over all series that stop being finite, at the first of them; losses and weights at any step."""
    starts = {name: first for name in view.values if (first := _first_bad_step(view, name)) is not None}
    if not starts:
        return []
    first = min(starts.values())
    order = sorted(starts, key=lambda name: (starts[name], -len(name)))
    worst = [name for name in order if starts[name] == first][:4]
    last = int(view.steps[-1])
    probe = Probe(
        series=tuple(worst),
        reading=Reading.NONFINITE,
        normal=(0.0,) * len(worst),
        anomalous=(1.0,) * len(worst),
        noise=(0.1,) * len(worst),
        since=first,
        until=last,
    )
    layers = {SeriesName.parse(name).layer for name in worst}
    return [
        Finding(
            kind="non_finite",
            series=tuple(order[:20]),
            layers=tuple(sorted(layer for layer in layers if layer is not None)),
            onset=(first, first),
            severity=1.0,
            statement=f"{worst[0]} is not finite from step {first} on; {len(order)} series are affected in the end",
            evidence=tuple(series_ref(view.run_id, name, first, min(first + 5, last)) for name in worst),
            probe=probe,
            specificity=100,
        )
    ]


def _end_of_evaluation(view: RunView, name: str, bad: np.ndarray) -> int | None:
    """Where an evaluation that gave values gives none any more. One that has gaps all along measures an empty slice."""
    logged = np.flatnonzero(view.present[name])
    flags = bad[logged]
    last_good = int(np.max(np.flatnonzero(~flags), initial=-1))
    if last_good + 1 < _LASTING or flags.size - last_good - 1 < _LASTING or flags[: last_good + 1].any():
        return None
    return int(view.steps[logged[last_good + 1]])


def _is_searching(view: RunView) -> NDArray[np.bool_]:
    """At which steps a loss scaler was on its way down: such a step is skipped, whatever its gradient is."""
    found = np.zeros(view.steps.size, dtype=np.bool_)
    for name in SCALES:
        if name in view.values:
            points = np.flatnonzero(view.present[name] & np.isfinite(view.values[name]))
            found[points[:-1]] |= np.diff(view.values[name][points]) < 0.0
    return found


def _first_bad_step(view: RunView, name: str) -> int | None:
    bad = view.present[name] & ~np.isfinite(view.values[name])
    if not bad.any():
        return None
    statistic = SeriesName.parse(name).statistic
    if statistic.startswith(_EVALUATIONS):
        return _end_of_evaluation(view, name, bad)
    if statistic in _LOSSES or statistic in _STATE:
        return int(view.steps[np.argmax(bad)])
    logged = np.flatnonzero(view.present[name])
    late = logged[(view.steps[logged] > _SETTLED) & ~_is_searching(view)[logged]]
    flags = bad[late].astype(int)
    if flags.size < _LASTING:
        return None
    runs = np.convolve(flags, np.ones(_LASTING, dtype=int), mode="valid") == _LASTING
    return int(view.steps[late[np.argmax(runs)]]) if runs.any() else None
