"""Where one model overtakes another in learning from the same data (R801-4.11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from loops.potential.learnability import Floats, Interval, Lines
from loops.statistics.welch import welch


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """`budget` where the fitted lines meet, None when they are parallel within noise or meet outside the budgets.

    `is_measured`: the measured scores, not only the fits, show it: `behind` is the last shared budget at which the
    second is significantly lower, `ahead` the first one at which it is significantly higher (0: none).
    """

    budget: Interval | None
    is_measured: bool
    behind: float
    ahead: float
    sentence: str


def crossing(budgets: Sequence[float], first_RJ: Floats, second_RJ: Floats) -> Crossing:
    """Of two models at the same budgets. Raises UserInputError as `Lines.fit`."""
    one, other = Lines.fit(budgets, first_RJ[None]), Lines.fit(budgets, second_RJ[None])
    behind, ahead = _measured(budgets, first_RJ, second_RJ)
    is_measured = 0 < behind < ahead
    budget = _meeting(budgets, one, other)
    if budget is None:
        sentence = "no crossing within the tested budgets that is separable from noise"
    else:
        shown = "the measured scores show it" if is_measured else "only the fitted lines show it"
        sentence = f"the lines cross at {budget.value:.4g} ({budget.low:.4g} to {budget.high:.4g}); {shown}"
    return Crossing(budget=budget, is_measured=is_measured, behind=behind, ahead=ahead, sentence=sentence)


def _meeting(budgets: Sequence[float], one: Lines, other: Lines) -> Interval | None:
    gap, slope = other.level_L - one.level_L, other.slope_L - one.slope_L
    level_var, slope_var = one.level_var_L + other.level_var_L, one.slope_var_L + other.slope_var_L
    df = one.level_df + other.level_df
    t = float(special.stdtrit(df, 0.975))
    leading = slope**2 - t**2 * slope_var
    if leading[0] <= 0:
        return None
    root = t * np.sqrt(np.maximum(level_var * slope**2 + slope_var * gap**2 - t**2 * level_var * slope_var, 0.0))
    middle = -slope * gap
    d = float(-gap[0] / slope[0])
    ends = sorted([float((middle - root)[0] / leading[0]), float((middle + root)[0] / leading[0])])
    x, low, high = (each + one.center for each in (d, *ends))
    if not 0.0 <= x <= one.last:
        return None
    return Interval(value=budgets[0] * 10**x, low=budgets[0] * 10**low, high=budgets[0] * 10**high)


def _measured(budgets: Sequence[float], first_RJ: Floats, second_RJ: Floats) -> tuple[float, float]:
    """Last budget at which the second is significantly behind, and the first after it at which it is ahead."""
    behind = ahead = 0.0
    for index, budget in enumerate(budgets):
        difference = welch(first_RJ[:, index], second_RJ[:, index])
        if difference.high < 0:
            behind, ahead = budget, 0.0
        elif difference.low > 0 and not ahead:
            ahead = budget
    return behind, ahead
