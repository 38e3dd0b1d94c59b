"""AdamW with clipping and a schedule."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def norm_of(gradients: list[Floats]) -> float:
    """Over all parameters."""
    return float(np.sqrt(sum(float((g**2).sum()) for g in gradients)))


def clipped(gradients: list[Floats], norm: float, limit: float) -> list[Floats]:
    """Scaled down to `limit` where the norm exceeds it."""
    factor = min(1.0, limit / (norm + 1e-12))

    return [factor * g for g in gradients]


def rate_at(step: int, optim: dict[str, Any]) -> float:
    """Learning rate of the 1-based step: a linear warm-up, then flat."""
    warmup = min(1.0, step / optim["warmup_steps"])

    return float(optim["lr"] * warmup)


class AdamW:
    """Loshchilov and Hutter, arXiv 1711.05101."""

    def __init__(self, weights: list[Floats]) -> None:
        self.first = [np.zeros_like(w) for w in weights]
        self.second = [np.zeros_like(w) for w in weights]

    def step(
        self, weights: list[Floats], gradients: list[Floats], rate: float, step: int, optim: dict[str, Any]
    ) -> list[Floats]:
        """New weights."""
        beta1, beta2 = optim["beta1"], optim["beta2"]
        self.first = [beta1 * m + (1 - beta1) * g for m, g in zip(self.first, gradients, strict=True)]

        self.second = [beta2 * v + (1 - beta2) * g**2 for v, g in zip(self.second, gradients, strict=True)]

        size = rate * np.sqrt(1 - beta2**step) / (1 - beta1**step)

        moved = [size * m / (np.sqrt(v) + optim["eps"]) for m, v in zip(self.first, self.second, strict=True)]

        keep = 1.0 - rate * optim["weight_decay"]

        return [keep * w - d for w, d in zip(weights, moved, strict=True)]
