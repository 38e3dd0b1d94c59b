"""Over-balancing: the experts come to the same load in all layers, or are held there all along (R801-3.2 a).

MaxVio = (max load - mean load) / mean load, Wang et al. 2024 (arXiv 2408.15664) eq. 4, R801-3.3.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from contracts.events import Scalar
from loops.debug.contrast import WARM_UP, WARM_UP_SHARE, Contrast, Place, contrast, places, probe_at
from loops.debug.finding import Finding, series_ref, steps_phrase
from loops.debug.measure import Probe, Reading, transform
from loops.debug.view import Family, Floats, RunView
from loops.statistics.location import difference_sigma, median

_PENALTY = ("aux_loss_share", "balance_loss")
_MIN_PENALTY = float(np.log(2.0))
_FALL_WITH_PENALTY = float(np.log(1.12))  # MaxVio falls by 11 % while the penalty doubles
_FALL_ALONE = float(np.log(1.8))
_MIN_LAYERS, _MIN_POINTS = 0.75, 40
_MOST_OF_LOSS, _USUAL = 0.2, 0.035  # share of the penalty in the loss; healthy trainings had 0.11 at most
_BY_CHANCE = 0.5  # of sqrt(2 ln E) sd of an expert's load when tokens choose by chance; the largest of E has about 0.7
_STANDING, _PARTS = 0.9, 4  # share of the points at which the one holds, and parts of the run of the other


def detect(view: RunView) -> list[Finding]:
    """MaxVio falls in most layers while the penalty grows, or collapses by itself, below every earlier level.

    Without such a change: a penalty that is much of the loss, or loads more equal than chance gives, all along.
    """
    family = view.family("max_vio/layers.*")
    if family is None:
        return []
    return _change(view, family) or _standing(view, family)


def _change(view: RunView, family: Family) -> list[Finding]:
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


def _standing(view: RunView, family: Family) -> list[Finding]:
    points = np.flatnonzero(np.all(np.isfinite(family.values), axis=0))
    points = points[max(WARM_UP, int(WARM_UP_SHARE * points.size)) :]
    if points.size < _MIN_POINTS:
        return []
    rows, shares = family.values[:, points], view.values.get("aux_loss_share")
    share = np.zeros(points.size) if shares is None else shares[points]
    least = _chance(view.segments[0].declared if view.segments else {})
    levels = np.stack([np.median(part, axis=1) for part in np.array_split(rows, _PARTS, axis=1)])
    vio = f"MaxVio {np.median(rows):.2f}"
    if np.mean(share >= _MOST_OF_LOSS) >= _STANDING:
        text = f"the balance penalty is {100 * np.median(share):.0f} % of the loss all along ({vio})"
        return [_all_along(view, points, text, ("aux_loss_share",), np.log(np.maximum(share, 1e-12))[None], _USUAL)]
    if np.all(np.mean(levels < least, axis=1) >= _MIN_LAYERS):
        text = f"the loads of the experts are more equal all along than chance makes them: {vio}, below {least:.2f}"
        return [_all_along(view, points, text, family.names, np.log(np.maximum(rows, 1e-12)), least)]
    return []


def _chance(declared: Mapping[str, Scalar]) -> float:
    """MaxVio that tokens which choose their experts by chance stay above; 0.0 when the numbers are not declared."""
    keys = ("moe.num_experts", "moe.top_k", "data.batch_size", "data.seq_len")
    numbers = [value for key in keys if isinstance(value := declared.get(key), int | float) and value > 0]
    if len(numbers) < len(keys):
        return 0.0
    experts, top_k, rows, length = numbers
    share = top_k / experts
    return _BY_CHANCE * float(np.sqrt(2.0 * np.log(experts) * (1.0 - share) / (rows * length * share)))


def _all_along(
    view: RunView, points: NDArray[np.intp], text: str, series: tuple[str, ...], logs: Floats, healthy: float
) -> Finding:
    """`logs` [N, S] of the series at the points, `healthy`: the value that it would have elsewhere."""
    steps = view.steps[points]
    return Finding(
        kind="over_balance",
        series=series,
        layers=(),
        onset=(int(view.steps[0]), int(steps[0])),
        severity=0.5,
        statement=text,
        evidence=tuple(series_ref(view.run_id, name, int(view.steps[0]), int(steps[-1])) for name in series[:8]),
        probe=Probe(
            series=series,
            reading=Reading.LOG_LEVEL,
            normal=(float(np.log(healthy)),) * len(series),
            anomalous=tuple(median(row) for row in logs),
            noise=tuple(max(difference_sigma(row), 1e-3) for row in logs),
            since=int(steps[0]),
            until=int(steps[-1]),
        ),
        specificity=54,
    )


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
