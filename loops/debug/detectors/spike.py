"""Loss and gradient-norm spikes: those that recover, and those that do not (divergence)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.location import difference_sigma, running_median

_LOSSES = ("lm_loss", "loss")
_WIDTH = 21  # points of the running median
_SIGMAS = 9.0
_MIN_JUMP = 0.2  # in logarithms: a loss 22 % above its surroundings
_RECOVERED = 0.05
_SETTLED = 30  # first points of a training that are not judged
_MOST = 5  # spikes that are told apart; more are one restless loss
_BATCH = 0.7  # in logarithms: what the content of one batch can add to one step


@dataclass(frozen=True, kw_only=True)
class _Spike:
    first: int
    peak: int
    last: int
    jump: float
    recovers: bool


def detect(view: RunView) -> list[Finding]:
    """The largest spikes of the loss, at most _MOST, the largest first.

    `spike` when the loss comes back to its course, `divergence` when it does not. A loss that is high at one single
    step and back at the next shows what was in the batch, not that the weights took harm: silent, unless it is huge.
    """
    for name in _LOSSES:
        steps, values = view.series(name)
        if steps.size < 2 * _WIDTH:
            continue
        spikes = _largest(steps, np.log(np.maximum(values, 1e-12)))
        return [_finding(view, name, spike) for spike in spikes if not _is_batch(view, spike)]
    return []


def _is_batch(view: RunView, spike: _Spike) -> bool:
    """Whether one single step was high, between neighbours that were logged."""
    logged = bool(np.isin([spike.peak - 1, spike.peak + 1], view.steps).all())
    return logged and spike.recovers and spike.first == spike.last and spike.jump < _BATCH


def _largest(steps: NDArray[np.int64], logs: NDArray[np.float64]) -> list[_Spike]:
    course = np.minimum.accumulate(running_median(logs, _WIDTH))
    excess = logs - course
    sigma = max(difference_sigma(logs[_SETTLED:]), 1e-6)
    high = (excess > max(_SIGMAS * sigma, _MIN_JUMP)) & (np.arange(logs.size) >= _SETTLED)
    found: list[_Spike] = []
    while high.any() and len(found) < _MOST:
        peak = int(np.argmax(np.where(high, excess, -np.inf)))
        first, last = _extent(excess, sigma, peak)
        found.append(_spike(steps, excess, sigma, (first, peak, last)))
        high[first : last + 1] = False
        if not found[-1].recovers:
            break
    return found


def _extent(excess: NDArray[np.float64], sigma: float, peak: int) -> tuple[int, int]:
    """First and last index around the peak that lie above the course."""
    first, last = peak, peak
    while first > 0 and excess[first - 1] > 3.0 * sigma:
        first -= 1
    while last + 1 < excess.size and excess[last + 1] > 3.0 * sigma:
        last += 1
    return first, last


def _spike(steps: NDArray[np.int64], excess: NDArray[np.float64], sigma: float, extent: tuple[int, int, int]) -> _Spike:
    first, peak, last = extent
    tail = excess[last + 1 :]
    recovers = tail.size >= 5 and float(np.median(tail[: 2 * _WIDTH])) < max(_RECOVERED, 3.0 * sigma)
    return _Spike(
        first=int(steps[first]),
        peak=int(steps[peak]),
        last=int(steps[last]),
        jump=float(excess[peak]),
        recovers=recovers,
    )


def _finding(view: RunView, name: str, spike: _Spike) -> Finding:
    percent = 100.0 * (np.exp(spike.jump) - 1.0)
    end = f"recovers by step {spike.last + 1}" if spike.recovers else "does not come back"
    _, values = view.series(name)
    logs = np.log(np.maximum(values, 1e-12))
    normal = float(np.median(logs[-2 * _WIDTH :])) if spike.recovers else float(np.min(running_median(logs, _WIDTH)))
    return Finding(
        kind="spike" if spike.recovers else "divergence",
        series=(name,),
        layers=(),
        onset=(spike.first, spike.peak),
        severity=0.3 if spike.recovers else min(1.0, 0.6 + spike.jump),
        statement=f"{name} jumps by {percent:.0f} % at step {spike.peak} and {end}",
        evidence=(series_ref(view.run_id, name, spike.first, spike.last),),
        probe=Probe(
            series=(name,),
            reading=Reading.LOG_LEVEL,
            normal=(normal,),
            anomalous=(normal + spike.jump,),
            noise=(max(difference_sigma(logs[_SETTLED:]), 1e-3),),
            since=spike.first,
            until=spike.last if spike.recovers else int(view.steps[-1]),
        ),
        specificity=25 if spike.recovers else 35,
    )
