"""Bounds for a rate k/N. Rates are printed with both, never bare (design section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special


@dataclass(frozen=True, kw_only=True)
class Rate:
    """k successes in n trials with a 95 % interval."""

    k: int
    n: int
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.k}/{self.n} (95 % {self.low:.3f} to {self.high:.3f})"


def wilson(k: int, n: int) -> Rate:
    """Score interval, Wilson (1927); good coverage also for small n. n = 0 gives (0, 1)."""
    if n == 0:
        return Rate(k=0, n=0, low=0.0, high=1.0)
    z = float(special.ndtri(0.975))
    share, spread = k / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * float(np.sqrt(share * (1 - share) / n + spread / (4 * n)))
    return Rate(k=k, n=n, low=max(0.0, centre - half), high=min(1.0, centre + half))


def clopper_pearson(k: int, n: int) -> Rate:
    """Exact interval, Clopper and Pearson (1934), by beta quantiles; never covers less than 95 %."""
    low = float(special.betaincinv(k, n - k + 1, 0.025)) if k > 0 else 0.0
    high = float(special.betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0
    return Rate(k=k, n=n, low=low, high=high)
