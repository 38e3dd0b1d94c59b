"""A global gradient norm that no longer covers the parameters: it is smaller than that of its own parts.

The squared norms of disjoint parts add up to the squared norm of the whole, so the whole is never below them. When it
is, gradients of a part are left out: parameters that were not handed to the clipping, shards that were not summed.
"""

from __future__ import annotations

import numpy as np

from contracts.names import SeriesName
from contracts.team import TeamRole
from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import Floats, RunView, Steps
from loops.statistics.location import difference_sigma, median

_WHOLE = "grad_norm"
_TOLERANCE = 0.02
_LASTING = 12  # points on either side


def detect(view: RunView) -> list[Finding]:
    """At most one finding, where the whole first stays below its parts after it had covered them."""
    steps, ratios = _ratios(view)
    short = ratios < 1.0 - _TOLERANCE
    covered = np.flatnonzero(~short)
    at = int(covered[-1]) + 1 if covered.size else 0
    if at < _LASTING or short[at - _LASTING : at].any() or ratios.size - at < _LASTING:
        return []
    return [_finding(view, steps, ratios, at)]


def _ratios(view: RunView) -> tuple[Steps, Floats]:
    """Whole over parts, where both were logged. Parts within parts count once: single matrices are left out."""
    named = [name for name in view.values if name.startswith(f"{_WHOLE}/") and SeriesName.parse(name).rank is None]
    modules = {name: SeriesName.parse(name).module for name in named}
    outer = [
        name for name, module in modules.items()
        if not any(module.startswith(f"{other}.") for other in modules.values()) and "/experts." not in name
    ]  # fmt: skip
    if _WHOLE not in view.values or len(outer) < 2:
        return np.empty(0, dtype=np.int64), np.empty(0)
    whole = view.values[_WHOLE]
    parts = np.sqrt(np.sum(np.square([view.values[name] for name in outer]), axis=0))
    complete = np.isfinite(whole) & np.isfinite(parts) & (parts > 0.0)
    return view.steps[complete], whole[complete] / parts[complete]


def _finding(view: RunView, steps: Steps, ratios: Floats, at: int) -> Finding:
    onset, last, share = (int(steps[at - 1]) + 1, int(steps[at])), int(steps[-1]), median(ratios[at:])
    _, norms = view.series(_WHOLE)
    before = median(np.log(norms[max(0, at - _LASTING) : at]))
    return Finding(
        kind="invariant",
        series=(_WHOLE,),
        layers=(),
        onset=onset,
        severity=min(1.0, 0.5 + (1.0 - share)),
        statement=(
            f"from step {onset[1]} on {_WHOLE} is {share:.2f} of the norm of its own parts: it no longer covers all "
            "parameters"
        ),
        evidence=(series_ref(view.run_id, _WHOLE, onset[0] - 1, last),),
        probe=Probe(
            series=(_WHOLE,),
            reading=Reading.LOG_LEVEL,
            normal=(before,),
            anomalous=(before + float(np.log(share)),),
            noise=(max(difference_sigma(np.log(norms[:at])), 1e-3),),
            since=onset[1],
            until=last,
        ),
        specificity=74,
        supplied_by=TeamRole.MODEL_TRAINER,
    )
