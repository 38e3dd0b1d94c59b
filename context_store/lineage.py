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

from context_store.arrays import Points
from context_store.database import driver


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

    def canonical(self, points: Points) -> Points:
        """The points of the canonical view."""
        return points.where(self.mask(points.segments, points.steps)) if self.cutoff else points


def load_lineage(connection: sa.Connection, run_id: str) -> Lineage:
    query = "SELECT number, start_step, last_step FROM segment WHERE run_id = %s"
    rows = driver(connection).execute(query, [run_id], binary=True)
    return Lineage.of([Span(number=number, start_step=start, last_step=last) for number, start, last in rows])


def advance(connection: sa.Connection, run_id: str, segment: int, step: int) -> None:
    """Note that the segment reached `step`. A run stands where its newest segment that made a step stands."""
    driver(connection).execute(_ADVANCE, {"run": run_id, "segment": segment, "step": step})


_ADVANCE = """
    WITH mine AS (
        UPDATE segment SET last_step = greatest(last_step, %(step)s)
        WHERE run_id = %(run)s AND number = %(segment)s RETURNING number, start_step, last_step
    ), newest AS (
        SELECT last_step FROM (
            SELECT number, start_step, last_step FROM segment WHERE run_id = %(run)s AND number <> %(segment)s
            UNION ALL SELECT * FROM mine) AS all_segments
        WHERE last_step > start_step ORDER BY number DESC LIMIT 1
    ), reached AS (
        SELECT coalesce((SELECT last_step FROM newest), greatest(last_step, %(step)s)) AS step
        FROM run WHERE id = %(run)s
    )
    UPDATE run SET last_step = reached.step FROM reached WHERE id = %(run)s AND last_step <> reached.step
"""
