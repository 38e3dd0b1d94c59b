"""A rank that departs from its peers: a slow node, a link that degrades, a shard that differs.

Ranks do the same work, so each is compared with the median of the others at the same steps.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from contracts.names import SeriesName
from loops.debug.finding import Finding, series_ref, steps_phrase, words
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.change_point import least_squares_split
from loops.statistics.location import difference_sigma, median, robust_sigma

_MIN_RANKS, _MIN_POINTS = 4, 20
_MIN_SHIFT, _SIGMAS = 0.1, 6.0  # in logarithms, and in robust sd over ranks and steps
_MIN_TIMED = 0.2  # of times, which a scheduler moves
_MINORITY = 0.34  # of the ranks; when more depart there are no peers to speak of
_WINDOW = 0.5  # the last share of the points, in which a departure must last

Floats = NDArray[np.float64]


def detect(view: RunView) -> list[Finding]:
    """At most one finding per statistic that is logged for each rank."""
    groups: dict[str, dict[int, str]] = defaultdict(dict)
    for name in view.values:
        parsed = SeriesName.parse(name)
        if parsed.rank is not None:
            groups[name.partition("@rank=")[0]][parsed.rank] = name
    found = [_judge(view, of, ranks) for of, ranks in sorted(groups.items()) if len(ranks) >= _MIN_RANKS]
    return [finding for finding in found if finding is not None]


def _judge(view: RunView, statistic: str, names: dict[int, str]) -> Finding | None:
    ranks = sorted(names)
    rows = np.stack([view.values[names[rank]] for rank in ranks])
    complete = np.all(np.isfinite(rows) & (rows > 0.0), axis=0)
    steps, logs = view.steps[complete], np.log(rows[:, complete])
    if steps.size < _MIN_POINTS:
        return None
    apart = np.stack([row - np.median(np.delete(logs, i, axis=0), axis=0) for i, row in enumerate(logs)])
    late = apart[:, int(steps.size * (1.0 - _WINDOW)) :]
    spread = max(robust_sigma(late.ravel()), 1e-4)
    shifts = np.array([median(row) for row in late])
    lasting = np.array([np.mean(row * np.sign(s) > abs(s) / 3.0) for row, s in zip(late, shifts, strict=True)])
    least = _MIN_TIMED if statistic.startswith("step_time") else _MIN_SHIFT
    departs = (np.abs(shifts) >= max(least, _SIGMAS * spread / np.sqrt(late.shape[1]))) & (lasting >= 0.9)
    chosen = [i for i in range(len(ranks)) if departs[i]]
    if not chosen or len(chosen) > _MINORITY * len(ranks):
        return None
    peers = tuple(names[rank] for rank in ranks)
    return _finding(view, statistic, {ranks[i]: (names[ranks[i]], apart[i], shifts[i]) for i in chosen}, steps, peers)


def _finding(
    view: RunView,
    statistic: str,
    chosen: dict[int, tuple[str, Floats, float]],
    steps: NDArray[np.int64],
    names: tuple[str, ...],
) -> Finding:
    worst = max(chosen, key=lambda rank: abs(chosen[rank][2]))
    name, apart, shift = chosen[worst]
    split = least_squares_split(apart)
    low, high = (0, 0) if split is None or split.gain < 0.3 else (split.low, split.high)
    onset = (int(steps[min(low, steps.size - 1)]), int(steps[min(high, steps.size - 1)]))
    which = f"rank{'s' if len(chosen) > 1 else ''} {words(tuple(chosen))}"
    verb = "depart" if len(chosen) > 1 else "departs"
    normal = median(apart[: low + 1]) if low >= _MIN_POINTS else 0.0
    return Finding(
        kind="rank_departure",
        series=tuple(found[0] for found in chosen.values()),
        layers=(),
        onset=onset,
        severity=min(1.0, 0.4 + abs(shift)),
        statement=(
            f"{which} {verb} from the other ranks {steps_phrase(onset)}: {statistic} is {100 * np.expm1(shift):+.0f} % "
            "off theirs to the end"
        ),
        evidence=tuple(series_ref(view.run_id, found[0], onset[0], int(steps[-1])) for found in chosen.values()),
        probe=Probe(
            series=(name,),
            reading=Reading.LOG_OVER_PEERS,
            normal=(normal,),
            anomalous=(shift,),
            noise=(max(difference_sigma(apart), 1e-3),),
            since=onset[1],
            until=int(steps[-1]),
            peers=tuple(each for each in names if each != name),
        ),
        specificity=80,
    )
