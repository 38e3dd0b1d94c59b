"""The global order: position -> sample id as a pure function of (seed, sample counts, mixture events).

No rank, worker or batch size enters it, so none of them can change it. A mixture or seed that changes on resume
adds an event; positions before the event keep their samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_BLOCK = 4096


@dataclass(frozen=True, kw_only=True)
class MixtureEvent:
    """From position `start` on, samples are drawn with these weights (one a source) and this seed."""

    start: int
    seed: int
    weights: tuple[float, ...]


class GlobalOrder:
    """Sample ids by position, extended on demand.

    Sources follow each other as a low-discrepancy sequence, so that every few samples hold the mixture's shares. Within
    a source each epoch reads every sample once, in a hashed order if `shuffle`. Ids of source s start at `first_id[s]`.
    """

    def __init__(self, num_samples: Sequence[int], events: Sequence[MixtureEvent], *, shuffle: bool) -> None:
        """`events` are ascending by start; the first starts at 0."""
        self._num_samples = tuple(num_samples)
        self._events = tuple(events)
        self._shuffle = shuffle
        self.first_id = np.concatenate([[0], np.cumsum(self._num_samples)[:-1]]).astype(np.int64)
        self._ids: Ids = np.empty(_BLOCK, dtype=np.int64)
        self._size = 0  # of `_ids`, that is drawn
        self._drawn = [0] * len(self._num_samples)
        self._epochs: list[Ids] = [np.empty(0, dtype=np.int64)] * len(self._num_samples)
        self._event = 0

    def ids(self, positions: Ids) -> Ids:
        """Sample ids at the given positions (any shape, each >= 0)."""
        while self._size <= int(positions.max()):
            self._extend()
        return self._ids[positions]

    def source_of(self, ids: Ids) -> NDArray[np.int64]:
        """Index of the source that each sample belongs to."""
        return np.searchsorted(self.first_id, ids, side="right") - 1

    def _extend(self) -> None:
        start = self._size
        if self._event + 1 < len(self._events) and self._events[self._event + 1].start == start:
            self._event += 1
            self._reshuffle_rest()
        later = [event.start for event in self._events[self._event + 1 : self._event + 2]]
        end = min([start + _BLOCK, *later])
        sources = _choose_sources(np.arange(start, end, dtype=np.uint64), self._events[self._event])
        if end > len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
        block = self._ids[start:end]
        for source in range(len(self._num_samples)):
            chosen = np.flatnonzero(sources == source)
            block[chosen] = self.first_id[source] + self._draw(source, len(chosen))
        self._size = end

    def _draw(self, source: int, count: int) -> Ids:
        """The next `count` samples of a source, epoch after epoch."""
        size = self._num_samples[source]
        pieces = [np.empty(0, dtype=np.int64)]
        while count:
            epoch, offset = divmod(self._drawn[source], size)
            if offset == 0:
                self._epochs[source] = self._shuffled(np.arange(size, dtype=np.int64), source, epoch)
            piece = self._epochs[source][offset : offset + count]
            pieces.append(piece)
            self._drawn[source] += len(piece)
            count -= len(piece)
        return np.concatenate(pieces)

    def _reshuffle_rest(self) -> None:
        """What the running epochs have not read yet follows the new event's seed, if it is another one."""
        if self._events[self._event].seed == self._events[self._event - 1].seed:
            return
        for source, size in enumerate(self._num_samples):
            epoch, offset = divmod(self._drawn[source], size)
            if offset:
                rest = self._shuffled(self._epochs[source][offset:], source, epoch)
                self._epochs[source] = np.concatenate([self._epochs[source][:offset], rest])

    def _shuffled(self, samples: Ids, source: int, epoch: int) -> Ids:
        if not self._shuffle:
            return samples
        key = _mix(_mix(np.array([self._events[self._event].seed], dtype=np.uint64)) + np.uint64(source))
        key = _mix(key + np.uint64(epoch))
        return samples[np.argsort(_mix(samples.astype(np.uint64) * _GOLDEN + key), kind="stable")]


def _choose_sources(positions: NDArray[np.uint64], event: MixtureEvent) -> NDArray[np.int64]:
    """Weyl sequence position * golden ratio + seed, cut at the cumulative weights."""
    offset = _mix(np.array([event.seed], dtype=np.uint64))
    uniform = (positions * _GOLDEN + offset).astype(np.float64) / 2.0**64
    edges = np.cumsum(event.weights) / np.sum(event.weights)
    last = int(np.flatnonzero(event.weights)[-1])
    return np.minimum(np.searchsorted(edges, uniform, side="right"), last)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser: a bijection of 64-bit words that spreads every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
