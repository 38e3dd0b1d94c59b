"""A recorded commit is HEAD at the start, not the code that ran. Where two runs contradict it, neither is believed.

Evidence: two runs of a project record one commit and one program, but their configurations have different fields. The
fields come from the code, so at least one of them did not run the committed code; which one, nobody can tell.
"""

from __future__ import annotations

import sqlalchemy as sa

from context_store.models import RunRow, SegmentRow
from context_store.records import TimelineEvent
from context_store.runs import load_config
from context_store.timeline import add_events
from contracts.enums import TimelineKind
from contracts.events import Scalar

_MAX_NAMED = 8


def distrust_contradicted_commit(connection: sa.Connection, run_id: str, segment: int) -> None:
    """Compares with the project's newest other run of the same recorded commit and program."""
    mine = _segment(connection, run_id, segment)
    commit = mine.environment.get("git.commit")
    if not commit:
        return
    query = (
        sa.select(SegmentRow.run_id, SegmentRow.number, SegmentRow.environment)
        .join(RunRow, RunRow.id == SegmentRow.run_id)
        .where(RunRow.project_id == mine.project_id, SegmentRow.run_id != run_id)
        .order_by(RunRow.created_at.desc(), SegmentRow.number.desc())
    )
    for other in connection.execute(query):
        environment = other.environment
        if (environment.get("git.commit"), environment.get("program")) == (commit, mine.environment.get("program")):
            _compare(connection, (run_id, segment), (other.run_id, other.number), str(commit))
            return


def _segment(connection: sa.Connection, run_id: str, segment: int) -> sa.Row[dict[str, Scalar], str]:
    query = (
        sa.select(SegmentRow.environment, RunRow.project_id)
        .join(RunRow, RunRow.id == SegmentRow.run_id)
        .where(SegmentRow.run_id == run_id, SegmentRow.number == segment)
    )
    return connection.execute(query).one()


def _compare(connection: sa.Connection, a: tuple[str, int], b: tuple[str, int], commit: str) -> None:
    fields_a, fields_b = (set(load_config(connection, *each, "declared")) for each in (a, b))
    if not fields_a or not fields_b or fields_a == fields_b:
        return
    differing = sorted(fields_a ^ fields_b)
    for (run_id, number), (other, _) in ((a, b), (b, a)):
        mine = (SegmentRow.run_id == run_id) & (SegmentRow.number == number)
        connection.execute(sa.update(SegmentRow).where(mine).values(code_version=""))
        row = connection.execute(sa.select(SegmentRow.start_step, SegmentRow.started_at).where(mine)).one()
        event = TimelineEvent(
            run_id=run_id,
            segment=number,
            step=row.start_step,
            kind=TimelineKind.CODE,
            title=f"recorded commit {commit[:10]} is not what ran: run {other} of the same commit has other fields",
            detail={"recorded_commit": commit, "other_run": other, "fields": differing[:_MAX_NAMED]},
            at=row.started_at,
        )
        add_events(connection, [event])
