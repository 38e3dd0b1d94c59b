"""What a classifier's score is worth: agreement with the reference labels, with intervals over groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loops.classifiers.groups import Ints
from loops.classifiers.model import Bools, Floats

_ROUNDS = 2000


@dataclass(frozen=True, kw_only=True)
class Score:
    """A rate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far predictions agree with reference labels, which need not be the truth (R801-5.4). Counts are documents."""

    f1: Score
    accuracy: Score
    precision: float
    recall: float
    num_texts: int
    num_groups: int
    num_positive: int


def agreement(predicted: Bools, labels: Bools, groups: Ints, *, rng: np.random.Generator) -> Agreement:
    """Intervals by the bootstrap over groups (Davison and Hinkley 1997, section 3.8): near-duplicates are drawn
    together, so that twenty copies of one text do not count as twenty pieces of evidence. NaN without any positive.
    """
    _, number = np.unique(groups, return_inverse=True)
    kinds = (predicted & labels, predicted & ~labels, ~predicted & labels, ~predicted & ~labels)
    counts = np.stack([np.bincount(number, weights=kind) for kind in kinds], axis=1)
    size = counts.shape[0]
    draws = rng.multinomial(size, np.full(size, 1.0 / size), size=_ROUNDS).astype(np.float64) @ counts
    total = counts.sum(axis=0, dtype=np.float64)
    hit, alarm, missed, _ = total.tolist()
    return Agreement(
        f1=_score(_f1(total[None])[0], _f1(draws)), accuracy=_score(_accuracy(total[None])[0], _accuracy(draws)),
        precision=_ratio(hit, hit + alarm), recall=_ratio(hit, hit + missed),
        num_texts=labels.size, num_groups=size, num_positive=int(labels.sum()),
    )  # fmt: skip


def calibration_error(probabilities: Floats, labels: Bools, *, num_bins: int = 10) -> float:
    """Expected calibration error over bins of equal size: mean |said - seen| (Naeini et al. 2015)."""
    order = np.argsort(probabilities, kind="stable")
    bins = np.array_split(order, min(num_bins, order.size))
    gaps = [each.size * abs(probabilities[each].mean() - labels[each].mean()) for each in bins]
    return float(sum(gaps) / probabilities.size)


def kappa(first: Bools, second: Bools) -> float:
    """Agreement of two labellers beyond chance (Cohen 1960); NaN where both always say the same one thing."""
    seen = float((first == second).mean())
    chance = float(first.mean() * second.mean() + (~first).mean() * (~second).mean())
    return (seen - chance) / (1.0 - chance) if chance < 1.0 else float("nan")


def _f1(counts: Floats) -> Floats:
    hit, alarm, missed = counts[:, 0], counts[:, 1], counts[:, 2]
    with np.errstate(invalid="ignore"):
        return np.asarray(2.0 * hit / (2.0 * hit + alarm + missed), dtype=np.float64)


def _accuracy(counts: Floats) -> Floats:
    return np.asarray((counts[:, 0] + counts[:, 3]) / counts.sum(axis=1), dtype=np.float64)


def _score(value: float, drawn: Floats) -> Score:
    low, high = np.nanquantile(drawn, [0.025, 0.975]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return Score(value=float(value), low=float(low), high=float(high))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
