"""A run that says nothing any more: a hang, a dead process, or logging that stopped (`no_data`).

A log cannot show this by itself, so it needs to know how long no step has come and whether the process is still there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loops.debug.finding import Finding
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView

NO_DATA, SPECIFICITY = "no_data", 70
_TIMES = ("step_time_s", "iteration_time_s")
_AT_LEAST_S = 120.0
_FACTOR = 20.0  # times the usual distance of two logged steps; a checkpoint or an evaluation takes a few
_SLOWEST = 2.0  # times the longest pause that the run has made before
_GONE_S = 30.0  # a process that ended a moment ago is still being recorded


@dataclass(frozen=True, kw_only=True)
class Pause:
    """`quiet_s`: seconds without a new step. `alive`: whether its process is there; None when that cannot be seen."""

    quiet_s: float
    alive: bool | None


def allowed_s(view: RunView) -> float:
    """Seconds without a step that say nothing yet."""
    steps, times = next((view.series(name) for name in _TIMES if view.series(name)[1].size), (view.steps, np.empty(0)))
    if times.size < 2:
        return _AT_LEAST_S * _FACTOR
    apart = float(np.median(np.diff(steps)))
    return max(_AT_LEAST_S, _FACTOR * apart * float(np.median(times)), _SLOWEST * apart * float(times.max()))


def silence(view: RunView, pause: Pause) -> Finding | None:
    """The finding of a run that is said to be running, or None while the pause is not longer than it makes at times.

    Of a process that is gone nothing more will come.
    """
    limit = _GONE_S if pause.alive is False else allowed_s(view)
    if not view.steps.size or pause.quiet_s <= limit:
        return None
    last = int(view.steps[-1])
    means = {
        True: "its process is still there: it hangs, or it no longer logs",
        False: "its process is gone",
        None: "whether its process is still there cannot be seen from here",
    }[pause.alive]
    return Finding(
        kind=NO_DATA,
        series=(),
        layers=(),
        onset=(last + 1, last + 1),
        severity=0.7,
        statement=f"no step has come for {pause.quiet_s:.0f} s after step {last}; {means}",
        evidence=(),
        probe=Probe(
            series=(), reading=Reading.LEVEL, normal=(), anomalous=(), noise=(), since=last + 1, until=last + 1
        ),
        specificity=SPECIFICITY,
    )
