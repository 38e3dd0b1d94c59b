"""Which segment counts at which step.

A segment that resumed at step s and made at least one step supersedes everything earlier segments logged after s.
Superseded points stay stored; only the canonical view leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store.models import SegmentRow


@dataclass(frozen=True, kw_only=True)
class Span:
    """What lineage needs to know of a segment."""

    number: int
    start_step: int
    last_step: int


@dataclass(frozen=True)
class Lineage:
    """`cutoff[segment]`: the last step at which that segment counts; absent: it counts everywhere."""

    cutoff: dict[int, int]

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Lineage:
        cutoff: dict[int, int] = {}
        lowest: int | None = None
        for span in sorted(spans, key=lambda s: -s.number):
            if lowest is not None:
                cutoff[span.number] = lowest
            if span.last_step > span.start_step:
                lowest = span.start_step if lowest is None else min(lowest, span.start_step)
        return cls(cutoff)

    def counts(self, segment: int, step: int) -> bool:
        return step <= self.cutoff.get(segment, step)

    def mask(self, segments: NDArray[np.int32], steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True for the points of the canonical view."""
        keep = np.ones(len(steps), dtype=np.bool_)
        for segment, last in self.cutoff.items():
            keep &= (segments != segment) | (steps <= last)
        return keep


def load_lineage(connection: sa.Connection, run_id: str) -> Lineage:
    columns = sa.select(SegmentRow.number, SegmentRow.start_step, SegmentRow.last_step)
    rows = connection.execute(columns.where(SegmentRow.run_id == run_id))
    return Lineage.of([Span(**row._mapping) for row in rows])
