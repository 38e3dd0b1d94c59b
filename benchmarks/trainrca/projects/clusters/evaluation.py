"""How good the network is on pages that it never learns from."""

from typing import Any

import numpy as np
from network import forward, loss_of
from numpy.typing import NDArray
from pages import page

Floats = NDArray[np.float64]
HELD_OUT = 10_000_019  # as a step: no training gets that far


def evaluate(weights: list[Floats], seed: int, step: int, data: dict[str, Any]) -> tuple[float, float]:
    """Loss and accuracy."""
    points, labels = page(seed, HELD_OUT, data)

    _, _, shares = forward(weights, points)

    loss = loss_of(shares, labels)

    best = shares.argmax(axis=1)

    accuracy = float((best == labels).mean())

    return loss, accuracy
