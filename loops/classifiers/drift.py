"""Does what a deployed classifier sees still look like what it was evaluated on?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from loops.classifiers.model import Floats

ERROR_RATE = 0.001  # a monitor looks often
_SMALL = 0.1  # of the distributions' largest distance: what is certain, but too little to matter, is no drift


@dataclass(frozen=True, kw_only=True)
class Drift:
    """`distance`: the largest gap between the two distributions of probabilities (Kolmogorov and Smirnov)."""

    distance: float
    p: float
    share_positive_before: float
    share_positive_now: float
    has_drifted: bool


def drift(before: Floats, now: Floats, threshold: float) -> Drift:
    """Of the probabilities of the evaluation set and of recent texts. Without labels it can tell that the input has
    changed, not that the classifier has become worse: that takes new labels.
    """
    found = stats.ks_2samp(before, now)
    return Drift(
        distance=float(found.statistic), p=float(found.pvalue),
        share_positive_before=float(np.mean(before >= threshold)), share_positive_now=float(np.mean(now >= threshold)),
        has_drifted=bool(found.pvalue < ERROR_RATE and found.statistic > _SMALL),
    )  # fmt: skip
