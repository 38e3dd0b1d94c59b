"""Reads the samples that the ranks ask for, and keeps count of what was read.

Shape letters: B sequences of one step, S tokens of a sequence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contracts.errors import ConfigError, UserInputError
from trainer.config import SOURCES, TrainConfig
from trainer.corpus import Corpus
from trainer.order import GlobalOrder, MixtureEvent
from trainer.parts import BatchLayout, Parts


@dataclass(frozen=True, kw_only=True)
class LoaderState:
    """What a checkpoint keeps of the data."""

    consumed: int  # samples read so far
    events: tuple[MixtureEvent, ...]
    sample_space: str  # hash of corpus and sample geometry; `seen` belongs to it
    seen: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The samples of one step. Sequence i belongs to rank i % dp_size."""

    tokens_BS: Tensor  # int64, seq_len + 1 tokens each
    source_B: NDArray[np.int64]  # index into SOURCES
    sample_hash: str  # of the sample ids in the order of their positions
    next_position: int  # behind the last position that was read
    repeated: int  # samples that this training had read before


class Loader:
    """Turns the positions each rank asks for into tokens."""

    def __init__(self, config: TrainConfig, parts: Parts, corpus: Corpus, state: LoaderState | None, step: int) -> None:
        """`state` and `step` (steps already done) come from a checkpoint; None and 0 start at position 0."""
        data = config.data
        self._length, self._stride = data.seq_len + 1, data.stride or data.seq_len
        counts = [_num_samples(name, len(text), data.seq_len, self._stride) for name, text in _named(corpus)]
        self._sample_space = f"{corpus.sha256}:{data.seq_len}:{self._stride}"
        self.consumed = state.consumed if state else 0
        self._events = _events(config, state)
        self._order = GlobalOrder(counts, self._events, shuffle=data.shuffle)
        continues = state is not None and state.sample_space == self._sample_space
        self._seen = state.seen.copy() if state and continues else np.zeros(sum(counts), dtype=np.bool_)
        self._layout = BatchLayout(batch_size=data.batch_size, dp_size=config.parallel.dp_size)
        self._offset = self.consumed - step * data.batch_size  # not 0 once the batch size changed on a resume
        self._rank_positions = parts.rank_positions
        self._text = np.concatenate(corpus.sources)
        self._first_byte = np.concatenate([[0], np.cumsum([len(s) for s in corpus.sources])[:-1]])

    def read(self, step: int) -> Batch:
        """The samples of the 0-based `step`."""
        positions_B = self._positions(step)
        id_B = self._order.ids(positions_B)
        source_B = self._order.source_of(id_B)
        start_B = self._first_byte[source_B] + (id_B - self._order.first_id[source_B]) * self._stride
        tokens_BS = self._text[start_B[:, None] + np.arange(self._length)]
        unread = np.unique(id_B[~self._seen[id_B]])
        self._seen[id_B] = True
        self.consumed += len(id_B)
        ordered = id_B[np.argsort(positions_B, kind="stable")]
        return Batch(
            tokens_BS=torch.from_numpy(tokens_BS.astype(np.int64)),
            source_B=source_B,
            sample_hash=hashlib.sha256(ordered.tobytes()).hexdigest(),
            next_position=int(positions_B.max()) + 1,
            repeated=len(id_B) - len(unread),
        )

    def mixture(self) -> Mapping[str, float]:
        """Weights in use."""
        return dict(zip(SOURCES, self._events[-1].weights, strict=True))

    def state(self) -> LoaderState:
        return LoaderState(
            consumed=self.consumed, events=self._events, sample_space=self._sample_space, seen=self._seen.copy()
        )

    def _positions(self, step: int) -> NDArray[np.int64]:
        layout = self._layout
        by_rank = [np.asarray(self._rank_positions(step, rank, layout)) for rank in range(layout.dp_size)]
        each = layout.batch_size // layout.dp_size
        for rank, positions in enumerate(by_rank):
            if positions.shape != (each,) or positions.dtype.kind not in "iu" or positions.min() + self._offset < 0:
                raise UserInputError(
                    f"rank_positions(step={step}, rank={rank}) gave {positions!r}",
                    remedy=f"return an integer array of {each} positions, none below 0",
                )
        return np.stack(by_rank, axis=1).reshape(-1).astype(np.int64) + self._offset


def _named(corpus: Corpus) -> list[tuple[str, NDArray[np.uint8]]]:
    return list(zip(SOURCES, corpus.sources, strict=True))


def _num_samples(name: str, size: int, seq_len: int, stride: int) -> int:
    if size <= seq_len:
        raise ConfigError(
            f"data.seq_len {seq_len} does not fit source '{name}' of {size} bytes",
            remedy="raise data.corpus_bytes or lower data.seq_len",
        )
    return (size - seq_len - 1) // stride + 1


def _events(config: TrainConfig, state: LoaderState | None) -> tuple[MixtureEvent, ...]:
    """The events so far, and one more when seed or weights are others than before."""
    weights = config.data.mixture.weights()
    if state is None:
        return (MixtureEvent(start=0, seed=config.seed, weights=weights),)
    last = state.events[-1]
    if (last.seed, last.weights) == (config.seed, weights):
        return state.events
    event = MixtureEvent(start=state.consumed, seed=config.seed, weights=weights)
    kept = tuple(e for e in state.events if e.start < state.consumed)
    return (*kept, event)
