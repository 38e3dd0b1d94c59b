"""Over-balancing: the penalty forces every expert to the same load, in all layers (R801-3.2 a).

MaxVio = (max load - mean load) / mean load, Wang et al. 2024 (arXiv 2408.15664) eq. 4, R801-3.3.
"""

from __future__ import annotations

import numpy as np

from loops.debug.contrast import Contrast, Place, contrast, places, probe_at
from loops.debug.finding import Finding, series_ref, steps_phrase
from loops.debug.measure import Reading, transform
from loops.debug.view import RunView

_PENALTY = ("aux_loss_share", "balance_loss")
_MIN_PENALTY = float(np.log(2.0))
_FALL_WITH_PENALTY = float(np.log(1.12))  # MaxVio falls by 11 % while the penalty doubles
_FALL_ALONE = float(np.log(1.8))
_MIN_LAYERS = 0.75


def detect(view: RunView) -> list[Finding]:
    """MaxVio falls in most layers while the penalty grows, or collapses by itself, below every earlier level."""
    family = view.family("max_vio/layers.*")
    if family is None:
        return []
    complete = np.all(np.isfinite(family.values), axis=0)
    steps, rows = view.steps[complete], transform(family.values[:, complete], Reading.LOG_LEVEL)
    for place in places(view):
        fall = contrast(steps, rows.mean(axis=0), boundary=place.boundary, end=place.end)
        if fall is None or _was_lower_before(steps, rows.mean(axis=0), place, fall):
            continue
        penalty = _penalty(view, place)
        needed = (_FALL_ALONE if penalty is None else _FALL_WITH_PENALTY) * place.strictness
        falling = _share_falling(steps, rows, place, needed)
        alone = penalty is not None or fall.strength >= 3.0
        if -fall.shift >= needed and falling >= _MIN_LAYERS and alone:
            return [_finding(view, place, fall, penalty, family.names, family.layers)]
    return []


def _penalty(view: RunView, place: Place) -> tuple[str, Contrast] | None:
    """The penalty statistic that at least doubles at the place."""
    for name in _PENALTY:
        steps, values = view.series(name)
        found = contrast(steps, transform(values, Reading.LOG_LEVEL), boundary=place.boundary, end=place.end)
        if found is not None and found.shift >= _MIN_PENALTY and found.strength >= 3.0:
            return name, found
    return None


def _was_lower_before(steps: np.ndarray, mean: np.ndarray, place: Place, fall: Contrast) -> bool:
    """True when an earlier stretch of the run lay as low: then this is a way back, not a collapse."""
    earlier = mean[steps <= place.boundary]
    stretches = [np.median(earlier[k : k + 15]) for k in range(0, max(1, earlier.size - 14), 5)]
    return bool(min(stretches) <= fall.anomalous)


def _share_falling(steps: np.ndarray, rows: np.ndarray, place: Place, needed: float) -> float:
    """Share of the layers whose median after the place lies below that before by half of what is needed."""
    before = np.median(rows[:, (steps <= place.boundary) & (steps > place.boundary - 40)], axis=1)
    after = np.median(rows[:, (steps > place.boundary) & (steps <= place.end)], axis=1)
    return float(np.mean(before - after >= 0.5 * needed))


def _finding(
    view: RunView,
    place: Place,
    fall: Contrast,
    penalty: tuple[str, Contrast] | None,
    names: tuple[str, ...],
    layers: tuple[int, ...],
) -> Finding:
    onset = fall.onset if penalty is None else penalty[1].onset
    before, after = np.exp(fall.normal), np.exp(fall.anomalous)
    text = f"the loads of the experts become equal in all layers {steps_phrase(onset)}: "
    text += f"MaxVio falls from {before:.2f} to {after:.2f}"
    series = names
    if penalty is not None:
        name, found = penalty
        series = (name, *names)
        text += f" while {name} grows from {np.exp(found.normal):.3g} to {np.exp(found.anomalous):.3g}"
    return Finding(
        kind="over_balance",
        series=("max_vio", *series) if "max_vio" in view.values else series,
        layers=layers,
        onset=onset,
        severity=min(1.0, 0.5 - fall.shift / 2.0),
        statement=text,
        evidence=tuple(series_ref(view.run_id, name, onset[0], place.end) for name in series[:8]),
        probe=probe_at(view, series, Reading.LOG_LEVEL, place, onset[1]),
        specificity=80,
    )
