"""How many tokens a run had seen at each step: what changed can be asked for by tokens too (R801-2.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store.database import Database
from context_store.models import ConfigValueRow
from context_store.records import DataReads, TimelineEvent
from context_store.runs import Runs
from context_store.series import SeriesStore

COUNTERS = ("tokens_seen", "consumed_tokens", "num_input_tokens_seen", "train/num_input_tokens_seen")
_LENGTH = "data.seq_len"


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """Parallel arrays over the recorded steps of the canonical history; `tokens` never falls. Empty: not recorded.

    Between two recorded steps tokens are taken to grow evenly.
    """

    steps: NDArray[np.int64]
    tokens: NDArray[np.float64]

    def at(self, step: int) -> float | None:
        """After `step` steps; None where nothing is recorded so late."""
        if not len(self.steps) or step > self.steps[-1]:
            return None
        return float(np.interp(step, [0, *self.steps], [0.0, *self.tokens]))

    def between(self, events: Sequence[TimelineEvent], lo: float | None, hi: float | None) -> list[TimelineEvent]:
        """Those at whose step at least `lo` and at most `hi` tokens were seen."""
        if lo is None and hi is None:
            return list(events)
        seen = [self.at(event.step) for event in events]
        low, high = (-np.inf if lo is None else lo), (np.inf if hi is None else hi)
        return [event for event, at in zip(events, seen, strict=True) if at is not None and low <= at <= high]


def token_counts(database: Database, run_id: str) -> TokenCounts:
    """As the training counted them (a series of COUNTERS), else the samples it read times `data.seq_len` in force."""
    for counted in SeriesStore(database).read_each(run_id, COUNTERS):
        finite = np.isfinite(counted.values)
        if finite.any():
            return _rising(counted.steps[finite], counted.values[finite])
    reads = Runs(database).data_reads(run_id)
    lengths = _lengths(database, run_id, reads)
    if not lengths.all() or not len(lengths):
        return TokenCounts(steps=reads.steps[:0], tokens=lengths[:0])
    return _rising(reads.steps, np.cumsum(np.diff(reads.positions, prepend=0) * lengths))


def _lengths(database: Database, run_id: str, reads: DataReads) -> NDArray[np.float64]:
    """Tokens of a sample at each step that was read; 0 where no configuration says so."""
    query = sa.select(ConfigValueRow.segment, ConfigValueRow.source, ConfigValueRow.step, ConfigValueRow.value).where(
        ConfigValueRow.run_id == run_id, ConfigValueRow.key == _LENGTH
    )
    lengths = np.zeros(len(reads.steps))
    with database.read() as connection:
        found = connection.execute(query.order_by(ConfigValueRow.source, ConfigValueRow.step)).all()
    for segment, source, step, value in found:  # declared before effective
        if isinstance(value, int | float):
            lengths[(reads.segments == segment) & ((reads.steps >= step) | (source == "declared"))] = value
    return lengths


def _rising(steps: NDArray[np.int64], tokens: NDArray[np.float64]) -> TokenCounts:
    return TokenCounts(steps=steps, tokens=np.maximum.accumulate(tokens))
