"""What went wrong in a pilot, by stated rules over its own series: problems to remove, never a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

SPIKE = 1.5  # times the running median of the loss
IMBALANCE = 2.0  # MaxVio at the end
_TAIL = 5  # the last fifth


def problems_of(records: Sequence[Mapping[str, float]]) -> list[str]:
    """Names of the problems that the steps of one training show; `records` are the values of its steps."""
    loss = np.array([each["lm_loss"] for each in records])
    found = []
    if not np.isfinite(loss).all():
        return ["loss not finite"]
    tail = max(1, loss.size // _TAIL)
    if loss[-tail:].mean() >= loss[:tail].mean():
        found.append("loss does not fall")
    medians = np.array([np.median(loss[max(0, n - 10) : n]) for n in range(10, loss.size)])
    if medians.size and (loss[10:] > SPIKE * medians).any():
        found.append("loss spike")
    balance = [each["max_vio"] for each in records[-tail:] if "max_vio" in each]
    if balance and float(np.mean(balance)) > IMBALANCE:
        found.append("experts out of balance")
    norms = np.array([each["grad_norm"] for each in records if "grad_norm" in each])
    if norms.size >= 20 and norms[-tail:].mean() > 10.0 * np.median(norms[:tail]):
        found.append("gradient norm grows")
    return found
