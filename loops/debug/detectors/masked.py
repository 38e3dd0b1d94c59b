"""Telemetry that hides a fault: a 0.0 where a value was lost, and a field that is no longer logged.

Trainers that print a running mean write 0.0 once a loss is NaN, and loggers that drop what is not finite leave the
field out; both look like silence or like a perfect value.
"""

from __future__ import annotations

import re

import numpy as np

from loops.debug.finding import Finding, series_ref, words
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.location import difference_sigma, median

_POSITIVE = re.compile(r"(^|[/_.])(lm_loss|loss|grad_norm|perplexity|ppl)(@|$)")  # cannot be zero in a real training
_MIN_POINTS = 8
_NEARLY = 0.05  # a value that came down below this share of its median may well reach 0.0 by itself
_MISSED = 5.0  # a series is gone when this many of its own intervals, and _MIN_STEPS points of the run, lack it
_MIN_STEPS = 20
_REGULAR = 0.7  # share of the run's points, up to its end, that a series has that is logged all along


def detect(view: RunView) -> list[Finding]:
    """At most one finding for zeros and one for fields that vanish."""
    return [*_zeros(view), *_vanished(view)]


def _zeros(view: RunView) -> list[Finding]:
    """Exact zeros of positive statistics that come from a value far from zero."""
    starts = {}
    for name in view.values:
        steps, values = view.series(name)
        zero = np.flatnonzero(values == 0.0)
        if not _POSITIVE.search(name) or values.size < _MIN_POINTS or not zero.size or zero[0] < 5:
            continue
        usual = median(values[: zero[0]])
        if usual > 0.0 and values[zero[0] - 1] > _NEARLY * usual:
            starts[name] = (int(steps[zero[0]]), usual, difference_sigma(values[: zero[0]]))
    if not starts:
        return []
    name = min(starts, key=lambda each: (starts[each][0], len(each)))
    first, usual, sigma = starts[name]
    last = int(view.steps[-1])
    probe = Probe(
        series=(name,),
        reading=Reading.LEVEL,
        normal=(usual,),
        anomalous=(0.0,),
        noise=(max(sigma, 1e-3),),
        since=first,
        until=last,
    )
    return [
        Finding(
            kind="masked_non_finite",
            series=tuple(sorted(starts)),
            layers=(),
            onset=(first, first),
            severity=0.9,
            statement=f"{name} is exactly 0.0 at step {first} after values around {usual:.3g}, all at once",
            evidence=(series_ref(view.run_id, name, max(first - 5, 0), min(first + 5, last)),),
            probe=probe,
            specificity=96,
        )
    ]


def _vanished(view: RunView) -> list[Finding]:
    """Series that were logged all along and stop while most of what was logged as often goes on."""
    gone = {name: last for name in view.values if (last := _last_point(view, name)) is not None}
    going_on = [name for name in view.values if name not in gone and _is_regular(view, name, int(view.steps[-1]))]
    if not gone or len(gone) >= len(going_on):  # most vanish: another way of logging, not a fault
        return []
    names = sorted(gone, key=lambda name: (gone[name], len(name)))
    first = gone[names[0]]
    together = tuple(name for name in names if gone[name] == first)
    last = int(view.steps[-1])
    probe = Probe(series=(), reading=Reading.LEVEL, normal=(), anomalous=(), noise=(), since=first, until=last)
    what = f"{_list(together)} {'is' if len(together) == 1 else 'are'} no longer logged"
    return [
        Finding(
            kind="vanished",
            series=together,
            layers=(),
            onset=(first, first),
            severity=0.6,
            statement=f"{what} after step {first}, although the run goes on to {last}",
            evidence=tuple(series_ref(view.run_id, name, max(first - 5, 0), last) for name in together[:4]),
            probe=probe,
            specificity=45,
        )
    ]


def _last_point(view: RunView, name: str) -> int | None:
    """The last step of a series that is gone; None for one that is still there or was never logged regularly."""
    logged = np.flatnonzero(view.present[name])
    if logged.size < _MIN_POINTS:
        return None
    interval = float(np.median(np.diff(logged)))
    missed = view.steps.size - 1 - logged[-1]
    last = int(view.steps[logged[-1]])
    is_gone = missed > max(_MISSED * interval, _MIN_STEPS)
    return last if is_gone and _is_regular(view, name, last) else None


def _is_regular(view: RunView, name: str, last: int) -> bool:
    until = view.steps <= last
    return bool(np.mean(view.present[name][until]) >= _REGULAR)


def _list(names: tuple[str, ...]) -> str:
    if len(names) <= 3:
        return words(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more series"
