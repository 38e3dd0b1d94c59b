"""Logs of few points, such as the lines that people cut out around an incident.

The noise cannot be measured there, so only what stands far apart is said: a loss that leaves every level it had while
the gradient norm explodes, and a speed that falls and stays apart while the loss does not move.
"""

from __future__ import annotations

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import Floats, RunView, Steps
from loops.statistics.change_point import least_squares_split
from loops.statistics.location import median, robust_sigma

_MIN_POINTS, _MOST = 8, 42  # with more points than that the other detectors judge
_LOSSES = ("lm_loss", "loss")
_JUMP = 0.4  # in logarithms: a loss 50 % above the lowest before
_GRADIENT = 10.0  # times its usual value
_RECOVERED = 0.1
_DROP, _SIGMAS, _SIDE = 0.03, 8.0, 3  # speed: fall in logarithms, in robust sd, points on either side


def detect(view: RunView) -> list[Finding]:
    """A burst of loss and gradient norm, and a fall of the speed with an unmoved loss; at most one of each."""
    name = next((name for name in _LOSSES if _MIN_POINTS <= view.series(name)[0].size < _MOST), None)
    if name is None or view.boundaries:
        return []
    return [found for found in (_burst(view, name), _slowing(view, name)) if found is not None]


def _burst(view: RunView, name: str) -> Finding | None:
    steps, values = view.series(name)
    logs = np.log(np.maximum(values, 1e-12))
    excess = logs - np.minimum.accumulate(logs)
    peak = int(np.argmax(excess))
    first = _gradient_onset(view, int(steps[peak]))
    if excess[peak] < _JUMP or peak < 2 or first is None:
        return None
    normal = float(np.min(logs[:peak]))
    back = np.flatnonzero(logs[peak:] - normal < _RECOVERED)
    last = int(steps[peak + back[0]]) if back.size else int(steps[-1])
    end = f"is back by step {last}" if back.size else "does not come back"
    text = f"{name} jumps by {100 * np.expm1(excess[peak]):.0f} % at step {int(steps[peak])} and {end}; "
    return Finding(
        kind="spike" if back.size else "divergence",
        series=(name, "grad_norm"),
        layers=(),
        onset=(first, int(steps[peak])),
        severity=0.3 if back.size else 0.8,
        statement=text + f"the gradient norm explodes from step {first} on",
        evidence=(series_ref(view.run_id, name, first, last), series_ref(view.run_id, "grad_norm", first, last)),
        probe=_probe(name, (normal, normal + float(excess[peak])), _RECOVERED, (first, last)),
        specificity=25,
    )


def _gradient_onset(view: RunView, peak: int) -> int | None:
    """First step of the rise of the gradient norm that leads to `peak`, None when it never exploded."""
    steps, norms = view.series("grad_norm")
    if norms.size < _MIN_POINTS or (usual := float(np.quantile(norms, 0.25))) <= 0.0:
        return None
    near = np.flatnonzero((steps <= peak) & (norms > _GRADIENT * usual))
    if not near.size:
        return None
    first = int(near[0])
    while first > 0 and norms[first - 1] > 3.0 * usual:
        first -= 1
    return int(steps[first])


def _slowing(view: RunView, loss: str) -> Finding | None:
    steps, speed = view.series("tflops")
    if speed.size < 4 * _SIDE or speed.min() <= 0.0:
        return None
    logs = np.log(speed)
    split = least_squares_split(logs, margin=_SIDE)
    if split is None or split.shape != "step":
        return None
    before, after = logs[: split.index], logs[split.index :]
    drop, sigma = median(before) - median(after), max(robust_sigma(before), robust_sigma(after))
    apart = float(before.min() - after.max())
    if drop < max(_DROP, _SIGMAS * sigma) or apart < 0.5 * drop or _moves(view, loss, int(steps[split.index])):
        return None
    return _slow_finding(view, (steps, logs), split.index, drop)


def _slow_finding(view: RunView, course: tuple[Steps, Floats], index: int, drop: float) -> Finding:
    steps, logs = course
    onset, last = (int(steps[index - 1]), int(steps[index])), int(steps[-1])
    text = f"the speed falls by {100 * -np.expm1(-drop):.1f} % at steps {onset[0]}-{onset[1]} and stays there"
    return Finding(
        kind="throughput",
        series=("tflops",),
        layers=(),
        onset=onset,
        severity=min(1.0, drop),
        statement=text + "; the loss does not move",
        evidence=(series_ref(view.run_id, "tflops", int(steps[max(index - 5, 0)]), last),),
        probe=_probe("tflops", (median(logs[:index]), median(logs[index:])), 0.01, (onset[1], last)),
        specificity=12,
    )


def _moves(view: RunView, name: str, step: int) -> bool:
    """Whether the loss differs between the last points before `step` and the first from it on."""
    steps, values = view.series(name)
    before, after = values[steps < step][-_SIDE:], values[steps >= step][:_SIDE]
    return min(before.size, after.size) < 1 or abs(median(after) / median(before) - 1.0) > 0.02


def _probe(name: str, levels: tuple[float, float], noise: float, span: tuple[int, int]) -> Probe:
    return Probe(
        series=(name,),
        reading=Reading.LOG_LEVEL,
        normal=(levels[0],),
        anomalous=(levels[1],),
        noise=(noise,),
        since=span[0],
        until=span[1],
    )
