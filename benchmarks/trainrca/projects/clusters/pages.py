"""The pages: points of four clusters on a ring, drawn from four shards."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

CLASSES = 4
SHARDS = ("north", "south", "east", "west")
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def generator(seed: int, step: int, offset: int) -> np.random.Generator:
    """One for each step, so that a training that is resumed goes on with the next page."""
    return np.random.default_rng((seed, offset, step))


def centres(labels: Labels) -> Floats:
    """Where the clusters lie: a quarter of a turn apart."""
    angles = labels * 2.0 * np.pi / CLASSES

    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def shard_of(rng: np.random.Generator, size: int, data: dict[str, Any]) -> Labels:
    """The shard of each point."""
    weights = np.array([data[f"{name}_weight"] for name in SHARDS])

    return rng.choice(len(SHARDS), size, p=weights / weights.sum())


def page(seed: int, step: int, data: dict[str, Any]) -> tuple[Floats, Labels]:
    """Points with the number of their cluster. A quality below 0.4 marks junk: its label says nothing."""
    size = data["page_size"]

    rng = generator(seed, step, data["seed_offset"])

    quality = rng.uniform(data["keep_above"], 1.0, size)

    labels = rng.integers(0, CLASSES, size)

    points = centres(labels) + data["noise"] * rng.normal(size=(size, 2))

    first = np.array([data[f"{name}_first_class"] for name in SHARDS])
    labels = (labels + first[shard_of(rng, size, data)]) % CLASSES

    junk = quality < 0.4
    labels[junk] = rng.integers(0, CLASSES, int(junk.sum()))

    return points, labels
