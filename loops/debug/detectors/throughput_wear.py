"""Training speed within a stretch of a run: a step down, a creep, and stalls at a regular distance.

Only a steady machine can be judged: where the speed of neighbouring steps scatters, whatever else runs there decides
it. What a machine does by design costs little or comes slowly, so each rule asks for a loss that would be worth a look.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.change_point import least_squares_split
from loops.statistics.location import difference_sigma, median, robust_sigma

_SPEEDS = (("tokens_per_second", 1.0), ("step_time_s", -1.0), ("iteration_time_s", -1.0), ("tflops", 1.0))
_MIN_POINTS = 60
_STEADY = 0.02  # robust sd of neighbouring steps, in logarithms
_STEP, _STEP_SIGMAS, _SIDE = 0.04, 8.0, 20  # drop in logarithms, in sd, and points on either side
_CREEP, _BLOCKS = 0.22, 8  # drop in logarithms over the run, monotone over that many blocks
_STALL, _MIN_STALLS, _REGULAR, _COST = 1.5, 6, 0.2, 0.05  # times the median; count; spread of distances; share of time


def detect(view: RunView) -> list[Finding]:
    """At most one finding, in the first stretch between resumes that shows one: stalls, else a step, else a creep."""
    for name, sign in _SPEEDS:
        _, values = view.series(name)
        if values.size >= _MIN_POINTS and values.min() > 0.0:
            found = (_in_stretch(view, name, stretch, sign) for stretch in view.stretches)
            return next((each for each in found if each), [])
    return []


def _in_stretch(view: RunView, name: str, stretch: tuple[int, int], sign: float) -> list[Finding]:
    steps, values = view.series(name)
    inside = np.flatnonzero((steps >= stretch[0]) & (steps <= stretch[1]))
    if inside.size < _MIN_POINTS:
        return []
    inside = inside[inside.size // 20 :]  # the first steps compile, cache and measure
    return _judge(view, name, steps[inside], sign * np.log(values[inside]), sign)


def _judge(view: RunView, name: str, steps: np.ndarray, logs: np.ndarray, sign: float) -> list[Finding]:
    if found := _stalls(view, name, steps, logs, sign):
        return [found]
    if difference_sigma(logs) > _STEADY:
        return []
    found = _step(view, name, steps, logs, sign) or _creep(view, name, steps, logs, sign)
    return [found] if found else []


def _stalls(view: RunView, name: str, steps: np.ndarray, logs: np.ndarray, sign: float) -> Finding | None:
    """Slow steps at a regular distance that together cost much of the time."""
    usual = median(logs)
    slow = np.flatnonzero(logs < usual - np.log(_STALL))
    gaps = np.diff(slow)
    if slow.size < _MIN_STALLS or robust_sigma(gaps.astype(float)) > _REGULAR * median(gaps.astype(float)):
        return None
    time = np.exp(-logs)
    cost = float(np.sum(time[slow] - np.exp(-usual)) / np.sum(time))
    if median(gaps.astype(float)) < 2 or cost < _COST:
        return None
    every = int(median(np.diff(steps[slow]).astype(float)))
    times = float(np.exp(usual - median(logs[slow])))
    text = f"every {every} steps one is {times:.1f} times as slow; {100 * cost:.0f} % of the time goes there"
    onset = (int(steps[slow[0]]), int(steps[slow[0]]))
    return _finding(view, name, text, onset, (usual, median(logs[slow])), sign, cost)


def _step(view: RunView, name: str, steps: np.ndarray, logs: np.ndarray, sign: float) -> Finding | None:
    split = least_squares_split(logs, margin=_SIDE)
    if split is None or split.shape != "step":
        return None
    before, after = logs[: split.index], logs[split.index :]
    drop, sigma = median(before) - median(after), max(robust_sigma(before), robust_sigma(after))
    if drop < max(_STEP, _STEP_SIGMAS * sigma):
        return None
    onset = (int(steps[split.low]), int(steps[min(split.high, steps.size - 1)]))
    text = f"the speed falls by {100 * -np.expm1(-drop):.0f} % at step {onset[0]}, at once and to the end"
    return _finding(view, name, text, onset, (median(before), median(after)), sign, drop)


def _creep(view: RunView, name: str, steps: np.ndarray, logs: np.ndarray, sign: float) -> Finding | None:
    blocks = [median(part) for part in np.array_split(logs, _BLOCKS)]
    drop = blocks[0] - blocks[-1]
    if drop < _CREEP or sum(b < a for a, b in pairwise(blocks)) < _BLOCKS - 1:
        return None
    onset = (int(steps[0]), int(steps[steps.size // _BLOCKS]))
    text = f"the speed creeps down by {100 * -np.expm1(-drop):.0f} % over the run"
    return _finding(view, name, text, onset, (blocks[0], blocks[-1]), sign, drop)


def _finding(
    view: RunView,
    name: str,
    text: str,
    onset: tuple[int, int],
    levels: tuple[float, float],
    sign: float,
    loss: float,
) -> Finding:
    last = next(hi for _, hi in view.stretches if hi >= onset[1])
    return Finding(
        kind="throughput",
        series=(name,),
        layers=(),
        onset=onset,
        severity=min(1.0, loss),
        statement=text,
        evidence=(series_ref(view.run_id, name, max(onset[0] - 50, 0), last),),
        probe=Probe(
            series=(name,),
            reading=Reading.LOG_LEVEL,
            normal=(sign * levels[0],),
            anomalous=(sign * levels[1],),
            noise=(_STEADY,),
            since=onset[1],
            until=last,
        ),
        specificity=12,
    )
