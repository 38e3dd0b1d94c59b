"""Samples that depend on seed and step only: points of four clusters on a ring, with the number of their cluster."""

import numpy as np

spread = 0.35


def samples_of(seed, step, size):
    rng = np.random.default_rng((seed, step))
    labels = rng.integers(0, 4, size)
    angles = labels * np.pi / 2
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points + spread * rng.normal(size=points.shape), labels
