"""Weight or gradient norms of one kind of module that run away from those of the others (R801-3.17).

Modules grow at different speeds in health, and all of them ever more slowly; a wrong optimizer for one kind of module
shows as growth that goes on, against the median of its peers. Says so within a stretch of a run; a kink at a resume is
for `trend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading, transform
from loops.debug.view import Family, RunView
from loops.statistics.change_point import least_squares_split
from loops.statistics.location import difference_sigma, median

_MIN_KINDS, _MIN_POINTS, _BLOCKS = 3, 80, 16
_STATISTICS = {"weight_norm": float(np.log(1.8)), "grad_norm": float(np.log(4.0))}  # growth over the last half
_MONOTONE = 0.85  # share of the block steps that go the same way
_KEEPS_ON = 0.7  # of the growth of the half before: it does not slow down

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Departure:
    family: Family
    apart: Floats  # in logarithms, against the median of the other kinds
    growth: float


def detect(view: RunView) -> list[Finding]:
    """At most one finding per statistic: the kind of module that runs away most, in the first stretch that shows it."""
    findings = []
    for statistic, least in _STATISTICS.items():
        kinds = {t: f for t, f in view.families.items() if t.startswith(f"{statistic}/layers.*.") and t.count(".") == 2}
        for first, last in view.stretches:
            inside = (view.steps >= first) & (view.steps <= last)
            found = [d for d in _departures(kinds, inside) if abs(d.growth) >= least]
            if found:
                findings.append(_finding(view, statistic, max(found, key=lambda d: abs(d.growth)), least))
                break
    return findings


def _departures(kinds: Mapping[str, Family], inside: NDArray[np.bool_]) -> list[_Departure]:
    rows = {t: np.median(transform(f.values, Reading.LOG_LEVEL), axis=0) for t, f in kinds.items()}
    if len(rows) < _MIN_KINDS:
        return []
    complete = np.all(np.isfinite(np.stack(list(rows.values()))), axis=0) & inside
    found = []
    for template, row in rows.items():
        others = np.median([other for t, other in rows.items() if t != template], axis=0)
        apart = np.where(complete, row - others, np.nan)
        if complete.sum() >= _MIN_POINTS and (growth := _growth(apart[complete])) is not None:
            found.append(_Departure(family=kinds[template], apart=apart, growth=growth))
    return found


def _growth(apart: Floats) -> float | None:
    """Signed growth over the last half of the points; None when it is not steady, or slows down."""
    blocks = np.array([median(part) for part in np.array_split(apart, _BLOCKS)])
    half = _BLOCKS // 2
    late, early = float(blocks[-1] - blocks[half]), float(blocks[half] - blocks[1])
    steady = float(np.mean(np.diff(blocks[half:]) * np.sign(late) > 0.0))
    return late if steady >= _MONOTONE and abs(late) >= _KEEPS_ON * abs(early) else None


def _finding(view: RunView, statistic: str, found: _Departure, least: float) -> Finding:
    points = np.flatnonzero(np.isfinite(found.apart))
    steps, apart = view.steps[points], found.apart[points]
    split = least_squares_split(apart, margin=8)
    low, high = (0, 0) if split is None else (split.low, split.high)
    onset, last = (int(steps[low]), int(steps[min(high, steps.size - 1)])), int(steps[-1])
    span = "the run" if len(view.stretches) == 1 else f"steps {int(steps[0])}-{last}"
    names, kind = found.family.names, found.family.template.rpartition(".")[2]
    rows = np.log(np.maximum(found.family.values[:, points], 1e-12))
    return Finding(
        kind="module_divergence",
        series=names,
        layers=found.family.layers,
        onset=onset,
        severity=min(1.0, 0.4 + 0.2 * abs(found.growth) / least),
        statement=(
            f"{statistic} of {kind} runs away from that of the other modules: against them it changes by a factor of "
            f"{np.exp(found.growth):.2g} over the last half of {span}, and does not slow down"
        ),
        evidence=tuple(series_ref(view.run_id, name, onset[0], last) for name in names[:8]),
        probe=Probe(
            series=names,
            reading=Reading.LOG_LEVEL,
            normal=tuple(float(median(row[: max(8, low)])) for row in rows),
            anomalous=tuple(float(median(row[-8:])) for row in rows),
            noise=tuple(max(difference_sigma(row), 1e-3) for row in rows),
            since=onset[1],
            until=last,
        ),
        specificity=63,
    )
