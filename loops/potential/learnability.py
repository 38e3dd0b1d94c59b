"""How fast a base learns from new data: equations (1) and (2) of R801-4.9 and 4.10, with intervals.

s(N) = b + k log10(N / N0) over the SFT checkpoints of several seeds; the untuned base is never a point. The model of
the noise: a seed shifts its whole curve (random intercept), and each score has noise of its own. The level is therefore
judged by the seeds' means (R - 1 degrees of freedom) and the slope by the residuals within seeds; where both matter,
degrees of freedom are Satterthwaite's (1946) and the interval of N* is Fieller's (1954).

Shape letters: L ladders, R seeds, J budgets. Scores are in points (0..100).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy import special

from contracts.errors import UserInputError

Floats = NDArray[np.float64]

MAX_EXTRAPOLATION = 10.0  # times the largest budget, or the smallest divided by it
CEILING_SHARE = 0.97  # of the largest possible score, from which on a curve has no room left
_BEND_LEVEL = 0.005  # one-sided, of the test that a curve flattens
_CONFIDENCE = 0.975


class Refusal(IntEnum):
    """Why no N* is given. NONE: one is given."""

    NONE = 0
    NO_SLOPE = 1
    SATURATED = 2
    EXTRAPOLATED = 3
    ABOVE_CEILING = 4

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Refusal.NONE: "",
    Refusal.NO_SLOPE: "the fitted slope k is not above 0: more data of this kind does not bring the target nearer",
    Refusal.SATURATED: "the curve flattens towards its end, so the straight line of equation (1) does not hold",
    Refusal.EXTRAPOLATED: f"the target lies more than {MAX_EXTRAPOLATION:.0f}x outside the tested budgets",
    Refusal.ABOVE_CEILING: "the target is above what the benchmark can give",
}


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its 95 % interval; an end may be infinite."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Least-squares lines of L ladders. x = log10(N / N0); `level` is the fitted score at `center`, the mean x."""

    center: float
    last: float  # x of the largest budget
    level_L: Floats
    slope_L: Floats
    level_var_L: Floats
    slope_var_L: Floats
    level_df: int
    slope_df: int
    first_score_L: Floats  # measured, at N0: the text calls this b, least squares gives another one
    last_score_L: Floats
    bend_t_L: Floats  # Student's t of a quadratic term, `slope_df` - 1 degrees of freedom; negative: flattens

    @classmethod
    def fit(cls, budgets: Sequence[float], scores_LRJ: Floats) -> Lines:
        """Raises UserInputError for a base point among the budgets, and for too few seeds or budgets."""
        x_J = _log_budgets(budgets)
        _, seeds, count = scores_LRJ.shape
        if seeds < 2 or count < 4:
            raise UserInputError(
                f"learnability from {seeds} seed(s) and {count} budget(s): there is no interval without their spread",
                remedy="give at least two seeds (better five) and four SFT checkpoints",
            )
        center = float(x_J.mean())
        d_J = x_J - center
        square = float(d_J @ d_J)
        means_LR = scores_LRJ.mean(axis=2)
        slope_L = (scores_LRJ @ d_J).mean(axis=1) / square
        rest_LRJ = scores_LRJ - means_LR[..., None] - slope_L[:, None, None] * d_J
        slope_df = seeds * (count - 1) - 1
        sum_L = (rest_LRJ**2).sum(axis=(1, 2))
        return cls(
            center=center,
            last=float(x_J[-1]),
            level_L=means_LR.mean(axis=1),
            slope_L=slope_L,
            level_var_L=means_LR.var(axis=1, ddof=1) / seeds,
            slope_var_L=sum_L / slope_df / (seeds * square),
            level_df=seeds - 1,
            slope_df=slope_df,
            first_score_L=scores_LRJ[:, :, 0].mean(axis=1),
            last_score_L=scores_LRJ[:, :, -1].mean(axis=1),
            bend_t_L=_bend(d_J, rest_LRJ, sum_L, slope_df),
        )

    def at(self, x: float | Floats) -> tuple[Floats, Floats, Floats]:
        """Fitted score, its half interval (95 %) and its degrees of freedom at x."""
        d = np.asarray(x) - self.center
        variance, df = self._variance(d)
        return self.level_L + self.slope_L * d, special.stdtrit(df, _CONFIDENCE) * np.sqrt(variance), df

    def needed(self, target: float | Floats, *, ceiling: float = 100.0) -> Needed:
        """Equation (2) for each ladder."""
        target_L = np.broadcast_to(np.asarray(target, dtype=np.float64), self.level_L.shape)
        gap_L = self.level_L - target_L
        safe_L = np.where(self.slope_L > 0, self.slope_L, 1.0)
        d_L = -gap_L / safe_L
        _, df_L = self._variance(d_L)
        low_L, high_L = self._fieller(gap_L, d_L, special.stdtrit(df_L, _CONFIDENCE))
        return Needed(
            log10_L=d_L + self.center,
            low_L=low_L + self.center,
            high_L=high_L + self.center,
            refusal_L=self._refusals(d_L + self.center, target_L, ceiling),
        )

    def _variance(self, d: Floats) -> tuple[Floats, Floats]:
        """Of the fitted score `d` from the centre, with Satterthwaite's degrees of freedom."""
        level, slope = self.level_var_L, self.slope_var_L * d**2
        total = np.maximum(level + slope, 1e-12)
        parts = level**2 / self.level_df + slope**2 / self.slope_df
        df = np.where(parts > 0, total**2 / np.maximum(parts, 1e-300), self.slope_df)
        return total, np.clip(df, 1.0, self.level_df + self.slope_df)

    def _fieller(self, gap_L: Floats, d_L: Floats, t_L: Floats) -> tuple[Floats, Floats]:
        """Where |level + slope d - target| <= t se(d), around the estimate; infinite where the slope may be 0."""
        slope, level_var, slope_var = self.slope_L, self.level_var_L, self.slope_var_L
        leading = slope**2 - t_L**2 * slope_var
        root = t_L * np.sqrt(
            np.maximum(level_var * slope**2 + slope_var * gap_L**2 - t_L**2 * level_var * slope_var, 0.0)
        )
        divisor = np.where(np.abs(leading) < 1e-12, 1e-12, leading)
        one, other = (-slope * gap_L - root) / divisor, (-slope * gap_L + root) / divisor
        low, high = np.minimum(one, other), np.maximum(one, other)
        bounded = leading > 0
        above = d_L >= high
        whole = root == 0
        return (
            np.where(bounded, low, np.where(above & ~whole, high, -np.inf)),
            np.where(bounded, high, np.where(above | whole, np.inf, low)),
        )

    def _refusals(self, x_L: Floats, target_L: Floats, ceiling: float) -> NDArray[np.int64]:
        reach = np.log10(MAX_EXTRAPOLATION)
        full = self.last_score_L >= CEILING_SHARE * ceiling
        flattens = self.bend_t_L < special.stdtrit(self.slope_df - 1, _BEND_LEVEL)
        outside = (x_L > self.last + reach) | (x_L < -reach)
        conditions = [target_L > ceiling, self.slope_L <= 0, full | flattens, outside]
        reasons = [Refusal.ABOVE_CEILING, Refusal.NO_SLOPE, Refusal.SATURATED, Refusal.EXTRAPOLATED]
        return np.select(conditions, [int(reason) for reason in reasons], default=0)


@dataclass(frozen=True, kw_only=True)
class Needed:
    """log10(N* / N0) of each ladder with its interval, and the refusal where none is to be used."""

    log10_L: Floats
    low_L: Floats
    high_L: Floats
    refusal_L: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Learnability:
    """One base: `start` is the fitted b, `first_score` the measured score at N0. `band`: (N, fit, low, high)."""

    budgets: tuple[float, ...]
    start: Interval
    first_score: float
    slope: Interval
    bend_p: float  # two-sided, of a curve that is not straight
    num_seeds: int
    band: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, kw_only=True)
class DataNeeded:
    """N* for a target. `amount` is None where `refusal` says why."""

    target: float
    amount: Interval | None
    refusal: str
    is_extrapolated: bool


@dataclass(frozen=True, kw_only=True)
class Saving:
    """N*_base / N*_m: how many times less data the other model needs. None where `refusal` says why."""

    ratio: Interval | None
    refusal: str


def learnability(budgets: Sequence[float], scores_RJ: Floats) -> Learnability:
    """Fit of one base: a row of scores a seed. Raises UserInputError as `Lines.fit`."""
    lines = Lines.fit(budgets, scores_RJ[None])
    start, start_half, _ = lines.at(0.0)
    half = special.stdtrit(lines.slope_df, _CONFIDENCE) * np.sqrt(lines.slope_var_L[0])
    bend_p = 2.0 * special.stdtr(lines.slope_df - 1, -abs(lines.bend_t_L[0]))
    return Learnability(
        budgets=tuple(budgets),
        start=_around(start[0], start_half[0]),
        first_score=float(lines.first_score_L[0]),
        slope=_around(lines.slope_L[0], half),
        bend_p=float(bend_p),
        num_seeds=scores_RJ.shape[0],
        band=tuple(_band(lines, budgets)),
    )


def data_needed(budgets: Sequence[float], scores_RJ: Floats, target: float, *, ceiling: float = 100.0) -> DataNeeded:
    """Equation (2) for one base; refuses with a reason instead of giving a number nobody should use."""
    needed = Lines.fit(budgets, scores_RJ[None]).needed(target, ceiling=ceiling)
    refusal = Refusal(int(needed.refusal_L[0]))
    x = float(needed.log10_L[0])
    outside = not 0.0 <= x <= np.log10(budgets[-1] / budgets[0])
    if refusal:
        return DataNeeded(target=target, amount=None, refusal=refusal.sentence, is_extrapolated=outside)
    amount = _powers(budgets[0], x, float(needed.low_L[0]), float(needed.high_L[0]))
    return DataNeeded(target=target, amount=amount, refusal="", is_extrapolated=outside)


def saving(base: DataNeeded, other: DataNeeded) -> Saving:
    """Ratio of two independent N*; interval from the two intervals (MOVER, Zou and Donner 2008)."""
    if base.amount is None or other.amount is None:
        which = "the baseline" if base.amount is None else "the model"
        return Saving(ratio=None, refusal=f"{which}: {base.refusal or other.refusal}")
    a, b = (np.log10([each.value, max(each.low, 1e-300), each.high]) for each in (base.amount, other.amount))
    difference = a[0] - b[0]
    low = difference - np.hypot(a[0] - a[1], b[2] - b[0])
    high = difference + np.hypot(a[2] - a[0], b[0] - b[1])
    return Saving(ratio=_powers(1.0, difference, low, high), refusal="")


def _log_budgets(budgets: Sequence[float]) -> Floats:
    if min(budgets, default=0) <= 0:
        raise UserInputError(
            "the untuned base (budget 0) is among the points of the fit",
            remedy="leave it out: equation (1) is over SFT checkpoints, and N0 is the first of them",
        )
    if list(budgets) != sorted(set(budgets)):
        raise UserInputError(f"the budgets {list(budgets)} do not grow", remedy="give each once, the smallest first")
    return np.log10(np.asarray(budgets, dtype=np.float64) / budgets[0])


def _bend(d_J: Floats, rest_LRJ: Floats, sum_L: Floats, slope_df: int) -> Floats:
    """t of the quadratic term that is orthogonal to level and slope."""
    q_J = d_J**2 - (d_J**2).mean()
    q_J = q_J - d_J * (q_J @ d_J) / (d_J @ d_J)
    square, seeds = float(q_J @ q_J), rest_LRJ.shape[1]
    bend_L = (rest_LRJ @ q_J).mean(axis=1) / square
    left_L = np.maximum(sum_L - seeds * square * bend_L**2, 1e-18) / (slope_df - 1)
    return np.asarray(bend_L / np.sqrt(left_L / (seeds * square)))


def _band(lines: Lines, budgets: Sequence[float]) -> list[tuple[float, float, float, float]]:
    found = []
    for x in np.linspace(0.0, lines.last + np.log10(MAX_EXTRAPOLATION), 25):
        fit, half, _ = lines.at(float(x))
        found.append((budgets[0] * 10**x, float(fit[0]), float(fit[0] - half[0]), float(fit[0] + half[0])))
    return found


def _around(value: float, half: float) -> Interval:
    return Interval(value=float(value), low=float(value - half), high=float(value + half))


def _powers(unit: float, value: float, low: float, high: float) -> Interval:
    with np.errstate(over="ignore"):
        powers = [float(unit * np.power(10.0, each)) for each in (value, low, high)]
    return Interval(value=powers[0], low=powers[1], high=powers[2])
