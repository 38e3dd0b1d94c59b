"""What two curves over the same checkpoints say together: the base score and the score after the same SFT.

A change over an interval of checkpoints is the slope of the checkpoint means, times the interval (with fewer than five
checkpoints: last minus first, with the seeds' spread pooled over the checkpoints). "Rises" and "falls" are one-sided
tests at ERROR_RATE, so that a wrong label is rarer than 1 in 100. "Flat" needs evidence too: changes beyond `margin`
points are excluded at ERROR_RATE (Schuirmann 1987). What neither rises, falls nor is flat is not known, and then the
verdict says how large a change would have been seen. Shows R801-4.6, R801-4.7, R801-4.18.

Shape letters: L runs, C checkpoints, R seeds. Scores are in points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import nct

from contracts.errors import UserInputError

Floats = NDArray[np.float64]

ERROR_RATE = 0.0045  # in each direction, so that a wrong label of either is rarer than 1 in 100
MARGIN = 2.0
POWER = 0.95


class Verdict(StrEnum):
    """`base` is the curve of the plain scores, `potential` the one after SFT."""

    FALSE_PLATEAU = "false_plateau"  # the base shows no rise, the potential rises
    FALSE_DEGRADATION = "false_degradation"  # the base falls, the potential does not
    TRUE_PLATEAU = "true_plateau"  # the potential rises less than the margin
    OVERTRAINING = "overtraining"  # the base does not fall, the potential falls
    TRUE_DROP = "true_drop"  # both fall
    GROWTH = "growth"  # both rise
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Change:
    """Points gained from the first to the last checkpoint, with the two-sided interval at 2 x ERROR_RATE."""

    points: float
    low: float
    high: float
    stderr: float
    df: float

    @property
    def detectable(self) -> float:
        """The smallest change that is called one with probability POWER."""
        return float(detectable(self.stderr, self.df))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A verdict with both changes it rests on, never one alone."""

    verdict: Verdict
    base: Change
    sft: Change
    num_checkpoints: int
    num_seeds: int
    error_rate: float
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Trends:
    """Changes of L runs at once."""

    points_L: Floats
    stderr_L: Floats
    df: float

    @classmethod
    def of(cls, tokens: Sequence[float], scores_LCR: Floats) -> Trends:
        """Raises UserInputError where nothing says how noisy the scores are."""
        x_C = np.asarray(tokens, dtype=np.float64)
        count, seeds = scores_LCR.shape[1:]
        if count < 2 or (count < 5 and seeds < 2):
            raise UserInputError(
                f"a change over {count} checkpoint(s) with {seeds} seed(s) has no noise to be judged by",
                remedy="score at least two checkpoints with two seeds each, or five checkpoints",
            )
        means_LC = scores_LCR.mean(axis=2)
        if count < 5:
            variance_L = scores_LCR.var(axis=2, ddof=1).mean(axis=1) / seeds
            points_L = means_LC[:, -1] - means_LC[:, 0]
            return cls(points_L=points_L, stderr_L=np.sqrt(2.0 * variance_L), df=count * (seeds - 1))
        d_C = (x_C - x_C.mean()) / np.ptp(x_C)
        square = float(d_C @ d_C)
        points_L = means_LC @ d_C / square
        rest_LC = means_LC - means_LC.mean(axis=1, keepdims=True) - points_L[:, None] * d_C
        return cls(points_L=points_L, stderr_L=np.sqrt((rest_LC**2).sum(axis=1) / (count - 2) / square), df=count - 2)

    @property
    def half(self) -> Floats:
        return np.asarray(critical(self.df) * np.maximum(self.stderr_L, 1e-12))


def critical(df: float) -> float:
    """Student's quantile of the one-sided test."""
    return float(special.stdtrit(df, 1.0 - ERROR_RATE))


def power(points: float, stderr: float, df: float) -> float:
    """Probability that a true change of `points` is called a rise (noncentral t)."""
    return float(nct.sf(critical(df), df, points / stderr))


def detectable(stderr: float | Floats, df: float) -> float | Floats:
    """Points that are seen with probability POWER: (t(1 - ERROR_RATE) + t(POWER)) standard errors."""
    return (critical(df) + float(special.stdtrit(df, POWER))) * stderr


def verdicts(base: Trends, sft: Trends, *, margin: float = MARGIN) -> NDArray[np.str_]:
    """[L] a Verdict for each run."""
    base_rises, base_falls, _ = _readings(base, margin)
    rises, falls, flat = _readings(sft, margin)
    conditions = [
        falls & base_falls,
        falls & ~base_falls,
        base_falls & (rises | flat),
        rises & base_rises,
        rises & ~base_rises,
        flat,
    ]
    chosen = [
        Verdict.TRUE_DROP,
        Verdict.OVERTRAINING,
        Verdict.FALSE_DEGRADATION,
        Verdict.GROWTH,
        Verdict.FALSE_PLATEAU,
        Verdict.TRUE_PLATEAU,
    ]
    return np.select(conditions, [str(each) for each in chosen], default=str(Verdict.INCONCLUSIVE))


def read(tokens: Sequence[float], base_CR: Floats, sft_CR: Floats, *, margin: float = MARGIN) -> Reading:
    """The verdict on one run. The base has one score a checkpoint (R = 1) when there are at least five of them."""
    base, sft = Trends.of(tokens, base_CR[None]), Trends.of(tokens, sft_CR[None])
    return judged(base, sft, num_checkpoints=len(tokens), num_seeds=sft_CR.shape[1], margin=margin)


def judged(base: Trends, sft: Trends, *, num_checkpoints: int, num_seeds: int, margin: float = MARGIN) -> Reading:
    """The verdict on the changes of one run (L = 1), however they were measured."""
    verdict = Verdict(str(verdicts(base, sft, margin=margin)[0]))
    changes = _change(base), _change(sft)
    return Reading(
        verdict=verdict,
        base=changes[0],
        sft=changes[1],
        num_checkpoints=num_checkpoints,
        num_seeds=num_seeds,
        error_rate=ERROR_RATE,
        sentence=_sentence(verdict, *changes, margin),
    )


def _readings(trends: Trends, margin: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    low, high = trends.points_L - trends.half, trends.points_L + trends.half
    return low > 0, high < 0, (low > -margin) & (high < margin) & (low <= 0) & (high >= 0)


def _change(trends: Trends) -> Change:
    points, half = float(trends.points_L[0]), float(trends.half[0])
    return Change(
        points=points, low=points - half, high=points + half, stderr=float(trends.stderr_L[0]), df=float(trends.df)
    )


_MEANING = {
    Verdict.FALSE_PLATEAU: "the base score shows no rise, but what SFT makes of the checkpoints still rises",
    Verdict.FALSE_DEGRADATION: "the base score falls, but what SFT makes of the checkpoints does not",
    Verdict.TRUE_PLATEAU: "what SFT makes of the checkpoints rises by less than {margin:g} points",
    Verdict.OVERTRAINING: "the base score does not fall, but what SFT makes of the checkpoints does",
    Verdict.TRUE_DROP: "both the base score and what SFT makes of the checkpoints fall",
    Verdict.GROWTH: "both the base score and what SFT makes of the checkpoints rise",
    Verdict.INCONCLUSIVE: "not separable from noise; a change of {seen:.1f} points after SFT would have been seen",
}


def _sentence(verdict: Verdict, base: Change, sft: Change, margin: float) -> str:
    meaning = _MEANING[verdict].format(margin=margin, seen=sft.detectable)
    return (
        f"{meaning}: base {base.points:+.2f} ({base.low:+.2f} to {base.high:+.2f}), "
        f"after SFT {sft.points:+.2f} ({sft.low:+.2f} to {sft.high:+.2f}) points"
    )
