"""A source of the data that takes over at a resume: most of what is read comes from it at once (R801-3.18).

A filter that lets everything through, or a weight that was meant for another mixture, shows in the realised shares
before the model's outputs do. A schedule that changes the mixture between two resumes is somebody's plan.
"""

from __future__ import annotations

import numpy as np

from contracts.team import TeamRole
from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import Floats, RunView, SegmentView, Steps

_PREFIX = "mixture/source."
_MIN_POINTS = 12  # on either side
_MIN_GAIN, _SIGMAS = 0.35, 6.0  # of all samples; in sd of the difference of the means


def detect(view: RunView) -> list[Finding]:
    """At most one finding: the source that gains most at the first resume that shows it."""
    names = [name for name in view.values if name.startswith(_PREFIX)]
    for segment in view.boundaries:
        gains = {name: found for name in names if (found := _gain(*view.series(name), view, segment)) is not None}
        if gains:
            name = max(gains, key=lambda each: gains[each][1] - gains[each][0])
            return [_finding(view, segment, name, *gains[name])]
    return []


def _gain(steps: Steps, values: Floats, view: RunView, segment: SegmentView) -> tuple[float, float, float] | None:
    """(share before, share after, sd of a step) when the source takes over at the start of the segment."""
    before = values[steps <= segment.start_step][-4 * _MIN_POINTS :]
    after = values[(steps > segment.start_step) & (steps <= view.end_of(segment))]
    if min(before.size, after.size) < _MIN_POINTS:
        return None
    old, new = float(before.mean()), float(after.mean())
    error = float(np.sqrt(before.var(ddof=1) / before.size + after.var(ddof=1) / after.size))
    sigma = float(before.std(ddof=1))
    return (old, new, sigma) if new - old >= max(_MIN_GAIN, _SIGMAS * error) and new > 0.5 else None


def _finding(view: RunView, segment: SegmentView, name: str, old: float, new: float, sigma: float) -> Finding:
    onset, last = (segment.start_step + 1, segment.start_step + 1), view.end_of(segment)
    source = name.removeprefix(_PREFIX)
    return Finding(
        kind="mixture_shift",
        series=(name,),
        layers=(),
        onset=onset,
        severity=min(1.0, 0.4 + (new - old)),
        statement=(
            f"the source {source} takes over at step {onset[0]}: {100 * new:.0f} % of the samples come from it, "
            f"{100 * old:.0f} % did before"
        ),
        evidence=(series_ref(view.run_id, name, max(segment.start_step - 20, 0), last),),
        probe=Probe(
            series=(name,),
            reading=Reading.LEVEL,
            normal=(old,),
            anomalous=(new,),
            noise=(max(sigma, 1e-2),),
            since=onset[0],
            until=last,
        ),
        specificity=58,
        supplied_by=TeamRole.PIPELINE_DEVELOPER,
    )
