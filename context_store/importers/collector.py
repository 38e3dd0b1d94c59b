"""Collects single values into columns, and gives them up piece by piece."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

import numpy as np

from context_store.importers.items import PIECE_POINTS, Column, Columns


class Collector:
    """16 bytes a point. Steps beyond 64 bits are not taken: `add` raises OverflowError for them."""

    def __init__(self) -> None:
        self._columns: dict[str, tuple[array[int], array[float]]] = {}
        self.num_points = 0

    def add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = (array("q"), array("d"))
            column[0].append(step)
            column[1].append(value)
        self.num_points += len(values)

    @property
    def is_full(self) -> bool:
        return self.num_points >= PIECE_POINTS

    def take(self) -> Iterator[Columns]:
        """What was collected since the last time; nothing when that is nothing."""
        if self._columns:
            columns: dict[str, Column] = {
                name: (np.frombuffer(steps, np.int64), np.frombuffer(values, np.float64))
                for name, (steps, values) in self._columns.items()
            }
            yield Columns(columns=columns)
        self._columns, self.num_points = {}, 0
