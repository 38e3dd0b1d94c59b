"""Runs that begin in the middle: which run they were forked from, by values that only equal weights and data give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa

from context_store import points
from context_store.dictionary import known_ids
from context_store.models import RunRow, SegmentRow
from context_store.records import TimelineEvent
from context_store.timeline import add_events
from contracts.enums import RunRole, TimelineKind

_NAMES = ("loss", "lm_loss", "aux_loss", "grad_norm", "eval_loss", "loss_ema")
_MIN_EQUAL = 2  # one printed number may be equal by chance


def link_forks(connection: sa.Connection, run_id: str) -> None:
    """The run with the one it was forked from, and with those of the project that were forked from it."""
    mine = connection.execute(_starts().where(RunRow.id == run_id)).one_or_none()
    if mine is None:
        return
    midway = _starts().where(RunRow.parent_run_id.is_(None), SegmentRow.start_step > 0)
    fork = connection.execute(midway.where(RunRow.id == run_id)).one_or_none()
    if fork is not None:
        _link_first(connection, fork, _older(connection, fork))
    later = midway.where(
        RunRow.project_id == mine.project_id,
        RunRow.id != run_id,
        SegmentRow.start_step > mine.start_step,
        SegmentRow.start_step < mine.last_step,
    )
    for fork in connection.execute(later).all():
        _link_first(connection, fork, [run_id])


def _starts() -> sa.Select[str, str, int, int, float]:
    """Runs with the step at which they begin."""
    return sa.select(RunRow.id, RunRow.project_id, RunRow.last_step, SegmentRow.start_step, SegmentRow.started_at).join(
        SegmentRow, (SegmentRow.run_id == RunRow.id) & (SegmentRow.number == 0)
    )


def _older(connection: sa.Connection, fork: sa.Row[str, str, int, int, float]) -> list[str]:
    """Other runs of the project that reach beyond its start, the oldest first."""
    others = (
        sa.select(RunRow.id)
        .where(RunRow.project_id == fork.project_id, RunRow.id != fork.id, RunRow.role == RunRole.TRAINING)
        .where(RunRow.last_step > fork.start_step)
        .order_by(RunRow.created_at, RunRow.id)
    )
    return list(connection.execute(others).scalars())


def _link_first(connection: sa.Connection, fork: sa.Row[str, str, int, int, float], others: Sequence[str]) -> None:
    """To the first of the others that has the same first values."""
    first = _first_values(connection, fork.id)
    for other in others if len(first) >= _MIN_EQUAL else ():
        equal = [name for name, (step, value) in first.items() if _holds(connection, other, name, step, value)]
        if len(equal) >= _MIN_EQUAL:
            _link(connection, fork.id, other, fork.start_step, fork.started_at, equal)
            return


def _first_values(connection: sa.Connection, run_id: str) -> dict[str, tuple[int, float]]:
    """The first finite value of each series that only weights and data determine."""
    found = {}
    for name, number in known_ids(connection, run_id, list(_NAMES)).items():
        data = points.read(connection, run_id, [number])
        finite = np.flatnonzero(np.isfinite(data.values))
        if len(finite):
            found[name] = (int(data.steps[finite[0]]), float(data.values[finite[0]]))
    return found


def _holds(connection: sa.Connection, run_id: str, name: str, step: int, value: float) -> bool:
    ids = known_ids(connection, run_id, [name])
    return bool(ids) and value in points.read(connection, run_id, list(ids.values()), step, step).values


def _link(connection: sa.Connection, run_id: str, parent: str, step: int, at: float, equal: list[str]) -> None:
    update = sa.update(RunRow).where(RunRow.id == run_id)
    connection.execute(update.values(parent_run_id=parent, parent_step=step))
    event = TimelineEvent(
        run_id=run_id,
        segment=0,
        step=step,
        kind=TimelineKind.FORK,
        title=f"forked from {parent} at step {step}: its first values are equal",
        detail={"from_run": parent, "start_step": step, "equal": equal},
        at=at,
    )
    add_events(connection, [event])
