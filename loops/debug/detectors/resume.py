"""What a resume that did not restore everything leaves behind: a jump that decays, a schedule or a scaler that starts
anew. A level that stays is for other detectors; here the series comes back to its course by itself (R801-3.20)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loops.debug.contrast import HISTORY, MIN_BEFORE
from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import SCALES, RunView, SegmentView
from loops.statistics.location import difference_sigma, median

_EARLY = 6  # points after the resume in which the jump shows
_MIN_JUMP, _SIGMAS, _NULLS = 0.02, 5.0, 2.0  # in logarithms; in sd of the mean of _EARLY points; over earlier jumps
_STRIDE = 3
_LOSSES = ("lm_loss", "loss")
_MIN_SCALE_RATIO = 8.0  # a scaler grows by factors of two; only one that starts anew jumps further
_RATES = ("learning_rate", "lr")
_RATE_RATIO = 1.2


@dataclass(frozen=True, kw_only=True)
class _Jump:
    segment: SegmentView
    name: str
    size: float  # in logarithms
    normal: float
    noise: float
    last: int  # of the steps in which it shows


def detect(view: RunView) -> list[Finding]:
    """At most one finding per kind of trace, at the first resume that shows it."""
    findings = []
    for judge, of in ((_loss_jump, _loss_finding), (_scale_jump, _scale_finding), (_rate_jump, _rate_finding)):
        jumps = [jump for segment in view.boundaries if (jump := judge(view, segment)) is not None]
        findings += [of(view, jumps[0])] if jumps else []
    return findings


def _loss_jump(view: RunView, segment: SegmentView) -> _Jump | None:
    """The loss lies above its course right after the resume, more than ever before, and comes back."""
    name = next((name for name in _LOSSES if name in view.values), None)
    if name is None:
        return None
    steps, values = view.series(name)
    logs = np.log(np.maximum(values, 1e-12))
    at, end = int(np.sum(steps <= segment.start_step)), int(np.sum(steps <= view.end_of(segment)))
    if at < MIN_BEFORE + _EARLY or end - at < 4 * _EARLY:
        return None
    size = _above(logs, at)
    earlier = [_above(logs, k) for k in range(max(MIN_BEFORE, at // 4), at - _EARLY + 1, _STRIDE)]
    sigma = difference_sigma(logs[max(0, at - HISTORY) : at])
    needed = max(_MIN_JUMP, _SIGMAS * sigma / np.sqrt(_EARLY), _NULLS * max([*earlier, 0.0]))
    left = median(logs[end - 2 * _EARLY : end]) - _level(logs, at)
    if size < needed or left > 0.5 * size:
        return None
    return _Jump(
        segment=segment,
        name=name,
        size=size,
        normal=median(logs[max(0, at - HISTORY) : at]),
        noise=max(sigma, 1e-3),
        last=int(steps[at + _EARLY - 1]),
    )


def _above(logs: np.ndarray, at: int) -> float:
    """Mean of the next _EARLY points over the level of those before."""
    return float(np.mean(logs[at : at + _EARLY])) - _level(logs, at)


def _level(logs: np.ndarray, at: int) -> float:
    """Where the series stood: the median of the last points, which a falling loss only goes below."""
    return median(logs[max(0, at - MIN_BEFORE) : at])


def _scale_jump(view: RunView, segment: SegmentView) -> _Jump | None:
    name = next((name for name in SCALES if name in view.values), None)
    return None if name is None else _ratio_jump(view, segment, name, _MIN_SCALE_RATIO)


def _rate_jump(view: RunView, segment: SegmentView) -> _Jump | None:
    """A learning rate that leaves its schedule although no field that sets it was changed."""
    before = view.before(segment)
    if before is not None and any(_sets_rate(key) for key in _changed(before, segment)):
        return None
    names = [name for name in view.values if name in _RATES or name.startswith("lr/")]
    jumps = [jump for name in names if (jump := _ratio_jump(view, segment, name, _RATE_RATIO)) is not None]
    return max(jumps, key=lambda jump: abs(jump.size), default=None)


def _ratio_jump(view: RunView, segment: SegmentView, name: str, ratio: float) -> _Jump | None:
    """The first value after the resume against the last one before, beyond what one step ever did before."""
    steps, values = view.series(name)
    at = int(np.sum(steps <= segment.start_step))
    if at < 3 or at >= values.size or min(values[:at][-3:].min(), values[at]) <= 0.0:
        return None
    logs = np.log(np.maximum(values, 1e-300))
    size = float(logs[at] - logs[at - 1])
    usual = float(np.max(np.abs(np.diff(logs[max(0, at - HISTORY) : at])), initial=0.0))
    if abs(size) < max(np.log(ratio), 2.0 * usual):
        return None
    last = int(steps[min(at + _EARLY, values.size) - 1])
    return _Jump(segment=segment, name=name, size=size, normal=float(logs[at - 1]), noise=1e-3, last=last)


def _changed(before: SegmentView, after: SegmentView) -> set[str]:
    keys = before.declared.keys() | after.declared.keys()
    return {key for key in keys if before.declared.get(key) != after.declared.get(key)}


def _sets_rate(key: str) -> bool:
    words = ("lr", "learning_rate", "schedule", "warmup", "steps", "optim", "max_iters", "batch")
    return any(word in key.lower() for word in words)


def _loss_finding(view: RunView, jump: _Jump) -> Finding:
    text = f"{jump.name} jumps by {100 * np.expm1(jump.size):.1f} % right after the resume and comes back by itself"
    return _finding(view, jump, f"{text}, as where something that it had learned or kept is not restored", 0.5, 65)


def _scale_finding(view: RunView, jump: _Jump) -> Finding:
    text = f"{jump.name} changes by a factor of {np.exp(jump.size):.3g} at the resume, as where the scaler starts anew"
    return _finding(view, jump, text, 0.5, 66)


def _rate_finding(view: RunView, jump: _Jump) -> Finding:
    text = f"{jump.name} changes by a factor of {np.exp(jump.size):.3g} at the resume although nothing that sets it "
    return _finding(view, jump, f"{text}was changed, as where the schedule is not restored", 0.7, 68)


def _finding(view: RunView, jump: _Jump, text: str, severity: float, specificity: int) -> Finding:
    first = jump.segment.start_step + 1
    return Finding(
        kind="resume",
        series=(jump.name,),
        layers=(),
        onset=(first, first),
        severity=severity,
        statement=f"{text} (step {first})",
        evidence=(series_ref(view.run_id, jump.name, max(jump.segment.start_step - 10, 0), jump.last),),
        probe=Probe(
            series=(jump.name,),
            reading=Reading.LOG_LEVEL,
            normal=(jump.normal,),
            anomalous=(jump.normal + jump.size,),
            noise=(jump.noise,),
            since=first,
            until=jump.last,
        ),
        specificity=specificity,
    )
