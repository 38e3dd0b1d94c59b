"""Batches that depend on seed and step only."""

import numpy as np


def batch(seed, step, size):
    rng = np.random.default_rng((seed, step))
    labels = rng.choice([-1.0, 1.0], size)
    angle = rng.uniform(0.5, 4.0, size)
    radius = angle / 4.0
    phase = np.where(labels > 0, 0.0, np.pi)
    points = np.stack([radius * np.cos(angle + phase), radius * np.sin(angle + phase)], axis=1)
    return points * 3.0, labels
