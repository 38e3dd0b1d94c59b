"""What is logged: random walks with full mantissa, or values from outside."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.errors import UserInputError

# (number of series, number of steps, seed) -> values [N, S]
Generator = Callable[[int, int, int], NDArray[np.float64]]


@dataclass(frozen=True)
class Batch:
    """One run's worth of series: names, `steps` [S] and `values` [N, S]."""

    names: tuple[str, ...]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def rows(self) -> list[tuple[int, dict[str, float]]]:
        """Step by step, as a training logs."""
        columns = self.values.T.tolist()
        return [
            (step, dict(zip(self.names, row, strict=True)))
            for step, row in zip(self.steps.tolist(), columns, strict=True)
        ]

    @property
    def num_points(self) -> int:
        return self.values.size


class Workload:
    """Every batch has a seed of its own, so nothing repeats."""

    def __init__(self, generate: Generator) -> None:
        self._generate = generate
        self._seeds = itertools.count(1)

    def batch(self, num_series: int, num_steps: int) -> Batch:
        values = np.asarray(self._generate(num_series, num_steps, next(self._seeds)), dtype=np.float64)
        names = tuple(f"grad_norm/layers.{index // 10}.m{index % 10}" for index in range(num_series))
        return Batch(names, np.arange(1, num_steps + 1), values.reshape(num_series, num_steps))


def random_walks(num_series: int, num_steps: int, seed: int) -> NDArray[np.float64]:
    """Gaussian steps of 0.01 from 3.0: all 52 bits of the mantissa are in use."""
    steps = np.random.default_rng(seed).normal(scale=0.01, size=(num_series, num_steps))
    return 3.0 + np.cumsum(steps, axis=1)


def load_generator(text: str) -> Generator:
    """`module:function`. Raises UserInputError."""
    module, _, function = text.partition(":")
    try:
        found: Generator = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserInputError(
            f"no generator '{text}': {error}",
            remedy="give module:function; it is called with (number of series, number of steps, seed)",
        ) from error
    return found
