"""Reads the samples of a step: which ones, in which order, by which rank; and keeps count of what was read.

The samples of a step are a pure function of (seed, corpus, mixture events, position): no rank, worker, micro-batch or
restart changes them. Shape letters: B sequences of one step, S tokens of a sequence, W steps of a balance window.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from contracts.errors import UserInputError
from trainer.balanced_sampling import assign_ranks, drift, imbalance, plan_window
from trainer.config import TrainConfig
from trainer.corpus import Corpus
from trainer.mixture_events import NO_WINDOW, Window, planned_events, planned_window
from trainer.order import GlobalOrder, MixtureEvent
from trainer.parts import BatchLayout, Parts
from trainer.samples import PADDING, Rows, sample_space, samples_of
from trainer.targets import Sequences

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LoaderState:
    """What a checkpoint keeps of the data."""

    consumed: int  # samples read so far
    events: tuple[MixtureEvent, ...]
    sample_space: str  # hash of corpus and sample geometry; `seen` belongs to it
    seen: NDArray[np.bool_]
    window: Window = NO_WINDOW


NOTHING_READ = LoaderState(consumed=0, events=(), sample_space="", seen=np.zeros(0, dtype=np.bool_))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The samples of one step. Sequence i belongs to rank i % dp_size."""

    sequences: Sequences
    source_B: Ints  # index into `DataConfig.source_names`
    sample_hash: str  # of the sample space and the sample ids in the order of their positions
    next_position: int  # behind the last position that was asked for
    repeated: int  # samples that this training had read before
    statistics: Mapping[str, float]  # series that only packed rows have


class Loader:
    """Turns the positions each rank asks for into tokens."""

    def __init__(self, config: TrainConfig, parts: Parts, corpus: Corpus, state: LoaderState | None, step: int) -> None:
        """`state` and `step` (steps already done) come from a checkpoint; None and 0 start at position 0."""
        data = config.data
        self._samples = samples_of(corpus, data)
        self._space = sample_space(corpus, data)
        self._names = data.source_names()
        self.consumed = state.consumed if state else 0
        self._window = planned_window(data, self.consumed, state.window if state else NO_WINDOW)
        events = state.events if state else ()
        self._events = planned_events(config, events, step, self.consumed, self._window)
        self._order = GlobalOrder(self._samples.counts, self._events, shuffle=data.shuffle)
        continues = state is not None and state.sample_space == self._space
        num_samples = sum(self._samples.counts)
        self._seen = state.seen.copy() if state and continues else np.zeros(num_samples, dtype=np.bool_)
        self._layout = BatchLayout(batch_size=data.batch_size, dp_size=config.parallel.dp_size)
        self._offset = self.consumed - step * data.batch_size  # not 0 once the batch size changed on a resume
        self._rank_positions = parts.rank_positions
        self._plan: tuple[int, Ints] = (-1, np.empty(0, dtype=np.int64))  # of the present window

    def read(self, step: int) -> Batch:
        """The samples of the 0-based `step`."""
        places_B = self._positions(step)
        positions_B = self._planned(places_B)
        id_B = self._order.ids(positions_B)
        if self._window.rows:
            rows = assign_ranks(self._costs(id_B), self._layout.dp_size)
            positions_B, id_B = positions_B[rows], id_B[rows]
        source_B = self._order.source_of(id_B)
        rows_read = self._samples.read(source_B, id_B - self._order.first_id[source_B])
        unread = np.unique(id_B[~self._seen[id_B]])
        self._seen[id_B] = True
        self.consumed += len(id_B)
        return Batch(
            sequences=sequences_of(rows_read),
            source_B=source_B,
            sample_hash=self._hash(id_B[np.argsort(positions_B, kind="stable")]),
            next_position=int(places_B.max()) + 1,
            repeated=len(id_B) - len(unread),
            statistics=self._statistics(step, id_B, source_B, rows_read),
        )

    def mixture(self, step: int) -> Mapping[str, float]:
        """Weights in use at the 0-based `step`."""
        first = step * self._layout.batch_size + self._offset
        event = [event for event in self._events if event.start <= max(first, 0)][-1]
        return dict(zip(self._names, event.weights, strict=True))

    def state(self) -> LoaderState:
        return LoaderState(
            consumed=self.consumed,
            events=self._events,
            sample_space=self._space,
            seen=self._seen.copy(),
            window=self._window,
        )

    def _hash(self, ids: Ints) -> str:
        return hashlib.sha256(self._space.encode() + ids.tobytes()).hexdigest()

    def _statistics(self, step: int, id_B: Ints, source_B: Ints, rows: Rows) -> dict[str, float]:
        if rows.document_BS is None:
            return {}
        wanted = np.array([*self.mixture(step).values()])
        share = np.bincount(source_B, minlength=len(wanted)) / len(source_B)
        return {
            "attention_imbalance": imbalance(self._costs(id_B), self._layout.dp_size),
            "mixture_drift": drift(share, wanted / wanted.sum()),
            "padding_share": float(np.mean(rows.document_BS == PADDING)),
        }

    def _costs(self, ids: Ints) -> Ints:
        source = self._order.source_of(ids)
        return self._samples.costs(source, ids - self._order.first_id[source])

    def _planned(self, positions_B: Ints) -> Ints:
        """The positions that a balance window puts in the place of the given ones."""
        if not self._window.rows:
            return positions_B
        window_B, place_B = np.divmod(positions_B - self._window.start, self._window.rows)
        planned_B = positions_B.copy()
        for window in np.unique(window_B[window_B >= 0]).tolist():  # what lies before the first window has no plan
            first = self._window.start + window * self._window.rows
            planned_B[window_B == window] = first + self._window_plan(first)[place_B[window_B == window]]
        return planned_B

    def _window_plan(self, first: int) -> Ints:
        if self._plan[0] != first:
            costs = self._costs(self._order.ids(np.arange(first, first + self._window.rows)))
            self._plan = (first, plan_window(costs, self._window.rows // self._layout.batch_size).reshape(-1))
        return self._plan[1]

    def _positions(self, step: int) -> Ints:
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


def sequences_of(rows: Rows) -> Sequences:
    """The same memory as tensors."""
    document_BS, mask_BS = rows.document_BS, rows.label_mask_BS
    return Sequences(
        tokens_BS=torch.from_numpy(rows.tokens_BS),
        document_BS=None if document_BS is None else torch.from_numpy(document_BS),
        label_mask_BS=None if mask_BS is None else torch.from_numpy(mask_BS),
    )
