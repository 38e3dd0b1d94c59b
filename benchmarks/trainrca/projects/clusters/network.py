"""Two hidden layers, and their gradients by hand."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
NAMES = ("w1", "b1", "w2", "b2", "w3")
WIDTH = 24


def fresh(seed: int) -> list[Floats]:
    """Initial weights."""
    rng = np.random.default_rng(seed)
    first = rng.normal(0, 0.5, (2, WIDTH))
    second = rng.normal(0, 0.2, (WIDTH, WIDTH))
    return [first, np.zeros(WIDTH), second, np.zeros(WIDTH), rng.normal(0, 0.2, (WIDTH, 4))]


def activation(x: Floats) -> Floats:
    """Of both hidden layers."""
    return np.tanh(x)


def slope(active: Floats) -> Floats:
    """Derivative of the activation, by its value."""
    return 1.0 - active**2


def shares_of(logits: Floats) -> Floats:
    """Softmax over the last axis."""
    shifted = logits - logits.max(axis=1, keepdims=True)

    powers = np.exp(shifted)

    return powers / powers.sum(axis=1, keepdims=True)


def forward(weights: list[Floats], points: Floats) -> tuple[Floats, Floats, Floats]:
    """Both hidden layers and the shares of the classes."""
    w1, b1, w2, b2, w3 = weights
    one = activation(points @ w1 + b1)

    two = activation(one @ w2 + b2)

    logits = two @ w3

    return one, two, shares_of(logits)


def loss_of(shares: Floats, labels: Labels) -> float:
    """Mean cross-entropy, in nats."""
    picked = shares[np.arange(len(labels)), labels]

    return float(-np.log(picked).mean())


def gradients_of(
    weights: list[Floats], points: Floats, hidden: tuple[Floats, Floats, Floats], labels: Labels
) -> list[Floats]:
    """Of the mean cross-entropy, in the order of NAMES."""
    one, two, shares = hidden
    wanted = np.eye(shares.shape[1])[labels]

    d_logits = (shares - wanted) / len(labels)

    d_two = (d_logits @ weights[4].T) * slope(two)

    d_one = (d_two @ weights[2].T) * slope(one)

    return [points.T @ d_one, d_one.sum(0), one.T @ d_two, d_two.sum(0), two.T @ d_logits]
