"""A rank whose machine computes wrong values, though nothing else shows it (silent data corruption).

Every process does one fixed computation at each step, and the trainer writes how far its result lies from the median
of all (`self_check@rank=R`, `trainer/ranks/self_check.py`). Sound machines differ by rounding at most, so one
step that departs is a finding; it takes a majority of sound ranks to say which one it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contracts.names import SeriesName
from loops.debug.finding import Finding, series_ref, words
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView

_STATISTIC = "self_check"
_MIN_RANKS = 3
_ROUNDING = 1e-4  # in units of a typical number; different processors round differently, but less than this

Floats = NDArray[np.float64]


def detect(view: RunView) -> list[Finding]:
    """At most one finding, of all ranks that are wrong; none where they are no minority."""
    names = sorted((name for name in view.values if name.startswith(f"{_STATISTIC}@rank=")), key=_rank)
    if len(names) < _MIN_RANKS:
        return []
    rows = np.stack([view.values[name] for name in names])
    is_wrong = rows > _ROUNDING  # a step that a rank did not write says nothing
    wrong = [i for i in range(len(names)) if is_wrong[i].any()]
    if not wrong or 2 * len(wrong) >= len(names):
        return []
    return [_finding(view, names, rows, is_wrong, wrong)]


def _rank(name: str) -> int:
    return SeriesName.parse(name).rank or 0


def _finding(view: RunView, names: list[str], rows: Floats, is_wrong: NDArray[np.bool_], wrong: list[int]) -> Finding:
    lead = max(wrong, key=lambda i: int(is_wrong[i].sum()))
    first, last = int(np.flatnonzero(is_wrong[wrong].any(axis=0))[0]), int(view.steps[-1])
    onset = int(view.steps[first])
    since = rows[lead, first:]
    written = since[np.isfinite(since)]
    peers = tuple(name for i, name in enumerate(names) if i != lead)
    series = (names[lead], *(names[i] for i in wrong if i != lead))
    which = f"rank{'s' if len(wrong) > 1 else ''} {words(tuple(_rank(names[i]) for i in wrong))}"
    return Finding(
        kind="self_check",
        series=series,
        layers=(),
        onset=(onset, onset),
        severity=0.9,
        statement=(
            f"{which} compute{'s' if len(wrong) == 1 else ''} wrong values from step {onset} on: the same computation "
            f"on the same numbers departs from the other ranks' by up to {written.max():.2g} of a "
            f"typical number, at "
            f"{int(is_wrong[lead].sum())} of {written.size} steps"
        ),
        evidence=tuple(series_ref(view.run_id, name, onset, last) for name in series),
        probe=Probe(
            series=(names[lead],),
            reading=Reading.LEVEL,
            normal=(0.0,),
            anomalous=(float(written.mean()),),
            noise=(max(float(written.std()), _ROUNDING),),
            since=onset,
            until=last,
            peers=peers,
        ),
        specificity=97,
    )
