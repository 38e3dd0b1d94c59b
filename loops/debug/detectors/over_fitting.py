"""The training loss falls while every evaluation loss has left its best value and rises."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from contracts.team import TeamRole
from loops.debug.finding import Finding, series_ref, words
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.location import difference_sigma, median

_EVALUATION = re.compile(r"^(eval|val|valid|validation)[/_.](.*[/_.])?(loss|bpb|nll)([/@]|$)")
_TRAINING = ("lm_loss", "loss", "train_loss", "train/loss")
_MIN_POINTS = 5  # evaluations after the first step; fewer show no course
_RISE, _SIGMAS = 0.05, 4.0  # of the best value, and of the evaluations' own step noise
_FALL = 0.05


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """One evaluation that turned: where it was best, and its values there and at the end."""

    name: str
    at: int
    best: float
    last: float
    sigma: float


def detect(view: RunView) -> list[Finding]:
    """One finding when all evaluations turn (most, when there are ten or more) and the training loss falls on."""
    evaluations = [name for name in view.values if _EVALUATION.search(name)]
    judged = [name for name in evaluations if _points(view, name)[0].size >= _MIN_POINTS]
    turns = [turn for name in judged if (turn := _turn(view, name)) is not None]
    if not turns or len(turns) < 0.9 * len(judged):
        return []
    first, last = min(turn.at for turn in turns), max(turn.at for turn in turns)
    fall = _fall_of_training(view, last)
    if fall is None or fall < _FALL:
        return []
    return [_finding(view, turns, (first, last), fall)]


def _points(view: RunView, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Without step 0: before any training, every loss is at its worst and says nothing."""
    steps, values = view.series(name)
    return steps[steps > 0], values[steps > 0]


def _turn(view: RunView, name: str) -> _Turn | None:
    steps, values = _points(view, name)
    best = int(np.argmin(values))
    last = median(values[-2:])
    sigma = difference_sigma(values)
    if best >= values.size - 2 or last - values[best] < max(_RISE * abs(values[best]), _SIGMAS * sigma):
        return None
    return _Turn(name=name, at=int(steps[best]), best=float(values[best]), last=last, sigma=max(sigma, 1e-3))


def _fall_of_training(view: RunView, since: int) -> float | None:
    """Relative fall of the training loss from then to the end."""
    for name in _TRAINING:
        steps, values = view.series(name)
        before, after = values[(steps > 0) & (steps <= since)][-3:], values[steps > since][-3:]
        if before.size and after.size:
            return 1.0 - median(after) / median(before)
    return None


def _finding(view: RunView, turns: list[_Turn], onset: tuple[int, int], fall: float) -> Finding:
    worst = max(turns, key=lambda turn: turn.last / turn.best)
    last = int(view.steps[-1])
    names = tuple(turn.name for turn in turns)
    many = words(names) if len(names) <= 2 else f"all {len(names)} evaluation losses"
    return Finding(
        kind="over_fitting",
        series=names,
        layers=(),
        onset=onset,
        severity=min(1.0, 0.4 + 0.3 * (worst.last / worst.best - 1.0)),
        statement=(
            f"over-fitting: the training loss falls by another {100 * fall:.0f} % while {many} rise from step "
            f"{onset[0]} on, {worst.name} from {worst.best:.3f} to {worst.last:.3f}"
        ),
        evidence=tuple(series_ref(view.run_id, name, onset[0], last) for name in names[:8]),
        probe=Probe(
            series=names,
            reading=Reading.LEVEL,
            normal=tuple(turn.best for turn in turns),
            anomalous=tuple(turn.last for turn in turns),
            noise=tuple(turn.sigma for turn in turns),
            since=onset[1],
            until=last,
        ),
        specificity=40,
        supplied_by=TeamRole.OUTPUT_INSPECTOR,
    )
