"""Smooth statistics of the weights that change course in all layers (R801-3.17, 3.19).

Weight norms move smoothly, so what shows first is a kink: the slope of every layer changes at the same step. Its
size is judged against the kinks that the same layers made together earlier, when nothing happened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loops.debug.contrast import WARM_UP, Place, contrast, places, probe_at
from loops.debug.detectors.invariant import newly_decayed
from loops.debug.finding import Finding, series_ref, steps_phrase
from loops.debug.measure import Reading, transform
from loops.debug.view import Family, RunView

_WIDTH = 16  # steps on either side whose slopes are compared
_MIN_LAYERS = 0.85  # share of the layers that turn the same way
_RATIO, _RATIO_SUPPORTED = 2.5, 1.2  # kink over the largest earlier one; with a broken invariant that explains it

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`min_kink`: change of the logarithm's slope per step that matters; `min_shift`: what it must have come to."""

    template: str
    min_kink: float
    min_shift: float
    specificity: int
    words: str


RULES = (
    Rule(
        template="weight_norm/layers.*.norm",
        min_kink=1e-4,
        min_shift=0.003,
        specificity=75,
        words="the gains of the norms",
    ),
    Rule(
        template="weight_norm/layers.*.router",
        min_kink=5e-3,
        min_shift=0.1,
        specificity=64,
        words="the router's weights",
    ),
    Rule(
        template="weight_norm/layers.*.attn", min_kink=2e-3, min_shift=0.05, specificity=50, words="attention's weights"
    ),
    Rule(
        template="weight_norm/layers.*.experts",
        min_kink=2e-3,
        min_shift=0.05,
        specificity=50,
        words="the experts' weights",
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Kink:
    """`change`: median over the layers of the change of slope; `shift`: how far they left their course, in the end."""

    change: float
    shift: float
    ratio: float


def detect(view: RunView) -> list[Finding]:
    """One finding per family of norms, at the place where the course changes most."""
    return [found for rule in RULES if (found := _judge(view, rule)) is not None]


def _judge(view: RunView, rule: Rule) -> Finding | None:
    family = view.family(rule.template)
    if family is None:
        return None
    best: tuple[Place, _Kink] | None = None
    for place in places(view):
        found = _kink(view, family, rule, place)
        if found is not None and (best is None or found.ratio > best[1].ratio):
            best = (place, found)
    return None if best is None else _finding(view, rule, family, *best)


def _kink(view: RunView, family: Family, rule: Rule, place: Place) -> _Kink | None:
    """The common kink at a place, when it is large, shared by the layers, lasting and unlike any before."""
    complete = np.all(np.isfinite(family.values), axis=0)
    steps, rows = view.steps[complete], transform(family.values[:, complete], Reading.LOG_LEVEL)
    at = int(np.sum(steps <= place.boundary))
    if at < 2 * _WIDTH or int(np.sum(steps <= place.end)) - at < _WIDTH:
        return None
    changes = _changes(steps, rows, at)
    change = float(np.median(changes))
    shift = _lasting_shift(steps, rows, place, np.sign(change))
    settled = min(max(WARM_UP, at // 4), at - 2 * _WIDTH)
    earlier = [abs(float(np.median(_changes(steps, rows, k)))) for k in range(settled + _WIDTH, at - _WIDTH + 1, 3)]
    ratio = abs(change) / max([*earlier, 0.1 * rule.min_kink])
    segment = view.segment_at(place.boundary + 1)
    is_explained = "norm" in rule.template and segment is not None and bool(newly_decayed(view, segment))
    enough = (_RATIO_SUPPORTED if is_explained else _RATIO) * place.strictness
    together = float(np.mean(changes * np.sign(change) > 0.3 * abs(change)))
    if abs(change) < rule.min_kink or ratio < enough or together < _MIN_LAYERS or shift < rule.min_shift:
        return None
    return _Kink(change=change, shift=shift * float(np.sign(change)), ratio=ratio)


def _changes(steps: NDArray[np.int64], rows: Floats, at: int) -> Floats:
    """Least-squares slope of each row over the _WIDTH points from `at` on, less that over those before."""
    return _slopes(steps[at : at + _WIDTH], rows[:, at : at + _WIDTH]) - _slopes(
        steps[at - _WIDTH : at], rows[:, at - _WIDTH : at]
    )


def _slopes(steps: NDArray[np.int64], rows: Floats) -> Floats:
    x = steps - steps.mean()
    return np.asarray(rows @ x / (x @ x), dtype=np.float64)


def _lasting_shift(steps: NDArray[np.int64], rows: Floats, place: Place, sign: float) -> float:
    """Median over the layers of how far they lie outside their course, counted in the direction of the kink."""
    found = [contrast(steps, row, boundary=place.boundary, end=place.end) for row in rows]
    return float(np.median([c.shift * sign for c in found if c is not None] or [0.0]))


def _finding(view: RunView, rule: Rule, family: Family, place: Place, kink: _Kink) -> Finding:
    onset = (place.boundary + 1, place.boundary + _WIDTH // 2)
    verb = "shrink" if kink.change < 0 else "grow"
    return Finding(
        kind="trend",
        series=family.names,
        layers=family.layers,
        onset=onset,
        severity=min(1.0, 0.3 + 0.1 * abs(kink.change) / rule.min_kink),
        statement=(
            f"{rule.words} begin to {verb} in all {len(family.layers)} layers {steps_phrase(onset)}: "
            f"by the end they are {100 * abs(np.expm1(kink.shift)):.1f} % away from their course"
        ),
        evidence=tuple(series_ref(view.run_id, name, onset[0], place.end) for name in family.names[:8]),
        probe=probe_at(view, family.names, Reading.SLOPE, place, onset[1]),
        specificity=rule.specificity,
    )
