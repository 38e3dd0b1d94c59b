"""A learning rate that leaves what was declared for it: its own schedule, or the course of the other groups."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from contracts.events import Scalar
from contracts.team import TeamRole
from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading
from loops.debug.view import Floats, RunView, Steps
from loops.statistics.location import median

_PREFIX = "lr/group."
_SAME, _OTHER = 0.01, 0.05  # relative: as declared, and clearly not
_LASTING = 10  # points on either side
_MIN_OTHERS = 3  # groups whose median no single one can move


def detect(view: RunView) -> list[Finding]:
    """At most one finding: the first group whose rate kept to a course and leaves it at once, for good.

    A project may bend a schedule in its own way; what never followed the declared one is no finding.
    """
    multipliers = {name: pair for name in view.values if (pair := _multiplier(view, name)) is not None}
    found: dict[str, tuple[int, float, str]] = {}
    for name, (steps, values) in sorted(multipliers.items()):
        others = [view.values[each] / _rate(view, each) for each in multipliers if each != name]
        at_these = np.isin(view.steps, steps)
        courses = {"its declared schedule": _scheduled(view, steps)}
        if len(others) >= _MIN_OTHERS:
            courses["the schedule of the other groups"] = np.median([row[at_these] for row in others], axis=0)
        for words, course in courses.items():
            at = None if course is None else _departure(values, course)
            if at is not None and course is not None:
                found.setdefault(name, (at, median(values[at:] / course[at:]), words))
    if not found:
        return []
    first = min(found, key=lambda name: found[name][0])
    return [_finding(view, first, *found[first])]


def _rate(view: RunView, name: str) -> float:
    """The declared rate of the group of `lr/group.NAME`; NaN when none is declared, or it was changed on the way."""
    key = f"optim.{name.removeprefix(_PREFIX)}.lr"
    rates = {segment.declared.get(key) for segment in view.segments}
    rate = rates.pop() if len(rates) == 1 else None
    return float(rate) if isinstance(rate, int | float) and rate > 0 else float("nan")


def _multiplier(view: RunView, name: str) -> tuple[Steps, Floats] | None:
    rate = _rate(view, name) if name.startswith(_PREFIX) else float("nan")
    if not np.isfinite(rate):
        return None
    steps, values = view.series(name)
    return steps, values / rate


def _scheduled(view: RunView, steps: Steps) -> Floats | None:
    """Multiplier that the declared schedule gives at each 1-based step; None when it is not declared, or changed."""
    fields = [{k: v for k, v in s.declared.items() if k.startswith("schedule.")} for s in view.segments]
    if not fields or not fields[0] or any(each != fields[0] for each in fields):
        return None
    return _multipliers(steps - 1, fields[0])


def _multipliers(steps: Steps, fields: Mapping[str, Scalar]) -> Floats | None:
    """Linear warm-up, then flat, or down to a floor by a line or half a cosine wave (0-based steps)."""
    names = ("warmup_steps", "decay_start", "decay_steps", "min_ratio")
    numbers = [fields.get(f"schedule.{name}") for name in names]
    kind = fields.get("schedule.kind")
    if kind not in ("constant", "linear", "cosine") or not all(isinstance(n, int | float) for n in numbers):
        return None
    warmup_steps, start, length, floor = (float(n) for n in numbers if isinstance(n, int | float))
    warmup = np.minimum(1.0, (steps + 1) / (warmup_steps + 1))
    if kind == "constant":
        return np.asarray(warmup)
    progress = np.clip((steps - start) / length, 0.0, 1.0)
    progress = progress if kind == "linear" else 0.5 - 0.5 * np.cos(np.pi * progress)
    return np.asarray(warmup * (1.0 - progress * (1.0 - floor)))


def _departure(values: Floats, course: Floats) -> int | None:
    """Index of the first of the points that lie apart to the end, right after points that did not."""
    off = np.abs(values / np.maximum(course, 1e-12) - 1.0)
    near = np.flatnonzero(off <= _OTHER)
    at = int(near[-1]) + 1 if near.size else 0
    followed = at >= _LASTING and bool(np.all(off[at - _LASTING : at] <= _SAME))
    return at if followed and values.size - at >= _LASTING else None


def _finding(view: RunView, name: str, at: int, ratio: float, words: str) -> Finding:
    steps, values = view.series(name)
    onset, last = (int(steps[at - 1]) + 1, int(steps[at])), int(steps[-1])
    before, after = (median(np.log(np.maximum(part, 1e-300))) for part in (values[at - _LASTING : at], values[at:]))
    return Finding(
        kind="invariant",
        series=(name,),
        layers=(),
        onset=onset,
        severity=min(1.0, 0.5 + 0.2 * abs(float(np.log(max(ratio, 1e-6))))),
        statement=f"{name} leaves {words} at step {onset[1]}: from there on it is {ratio:.3g} times what it should be",
        evidence=(series_ref(view.run_id, name, onset[0] - 1, last),),
        probe=Probe(
            series=(name,),
            reading=Reading.LOG_LEVEL,
            normal=(before,),
            anomalous=(after,),
            noise=(1e-3,),
            since=onset[1],
            until=last,
        ),
        specificity=73,
        supplied_by=TeamRole.MODEL_TRAINER,
    )
