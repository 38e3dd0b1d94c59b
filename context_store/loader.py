"""Turns the events of one segment into rows, inside one transaction of the shipper."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store import points
from context_store.changes import Predecessor, effective_changes, segment_changes
from context_store.dictionary import SeriesSets
from context_store.frames import packed_values
from context_store.lineage import advance
from context_store.models import (
    Base,
    CheckpointRow,
    ConfigValueRow,
    DataReadRow,
    ExecutedFileRow,
    RunRow,
    SegmentRow,
)
from context_store.records import TimelineEvent
from context_store.redaction import redact, redact_fields
from context_store.runs import load_config, with_short_keys
from context_store.timeline import add_events
from contracts.enums import RunState, TimelineKind
from contracts.errors import LogFormatError
from contracts.events import (
    CheckpointSaved,
    CodeExecuted,
    DataRead,
    Effective,
    Event,
    Finished,
    Metrics,
    SegmentStarted,
)


class SegmentLoader:
    """Every method may see the same event again; the rows end up the same."""

    def __init__(self, connection: sa.Connection, run_id: str, segment: int, log: Path, *, now: float) -> None:
        self._connection = connection
        self._run_id = run_id
        self._segment = segment
        self._log = log
        self._now = now
        self._predecessor: Predecessor | None = None
        self._timeline: list[TimelineEvent] = []

    def load(self, events: Sequence[Event]) -> None:
        """Raises LogFormatError when the log belongs to another run or does not begin with its segment."""
        if not events:
            return
        self._check_start(events[0])
        metrics: list[Metrics] = []
        reads: list[DataRead] = []
        for event in events:
            match event:
                case Metrics():
                    metrics.append(event)
                case DataRead():
                    reads.append(event)
                case SegmentStarted():
                    self._started(event)
                case Effective():
                    self._effective(event)
                case CheckpointSaved():
                    self._checkpoint(event)
                case CodeExecuted():
                    self._executed(event)
                case Finished():
                    self._finished(event)
        self._metrics(metrics)
        self._data_reads(reads)
        add_events(self._connection, self._timeline)

    # --- what comes once a segment

    def _check_start(self, first: Event) -> None:
        if isinstance(first, SegmentStarted):
            if (first.run_id, first.segment) == (self._run_id, self._segment):
                return
            problem = f"belongs to segment {first.segment} of run {first.run_id}"
        elif self._connection.execute(self._mine(sa.select(SegmentRow.number))).scalar() is not None:
            return
        else:
            problem = f"does not begin with {SegmentStarted.kind}"
        raise LogFormatError(
            f"{self._log} {problem}; expected segment {self._segment} of run {self._run_id}",
            remedy="each run needs a folder of its own, written by its own training",
        )

    def _started(self, event: SegmentStarted) -> None:
        """A second such event in one segment is the same segment going on after a crash."""
        environment = redact_fields(event.environment)
        config = redact_fields(with_short_keys(event.config))
        values = {
            "code_version": event.code_version,
            "seed": event.seed,
            "dp_size": event.dp_size,
            "environment": environment,
        }
        statement = insert(SegmentRow).values(
            run_id=self._run_id,
            number=self._segment,
            start_step=event.start_step,
            last_step=event.start_step,
            start_checkpoint=event.start_checkpoint,
            started_at=event.wall_time,
            **values,
            **_GOING_ON,
        )
        update = statement.on_conflict_do_update(index_elements=["run_id", "number"], set_=values | _GOING_ON)
        self._connection.execute(update)
        declared = (ConfigValueRow.segment == self._segment) & (ConfigValueRow.source == "declared")
        self._connection.execute(sa.delete(ConfigValueRow).where(ConfigValueRow.run_id == self._run_id, declared))
        rows = [self._row(source="declared", step=event.start_step, key=k, value=v) for k, v in config.items()]
        self._upsert(ConfigValueRow, rows, ["value"])
        self._set_run_state(RunState.RUNNING, "")
        self._predecessor = self._find_predecessor(event)
        if self._predecessor is not None:
            clean = dataclasses.replace(event, config=config, environment=environment)
            self._timeline += segment_changes(clean, self._predecessor)

    def _finished(self, event: Finished) -> None:
        message, remedy = redact(event.message), redact(event.remedy)
        ended = {"ended_at": self._now, "end_reason": event.reason, "message": message, "remedy": remedy}
        self._connection.execute(self._mine(sa.update(SegmentRow)).values(**ended))
        self._set_run_state(_END_STATES.get(event.reason, RunState.FAILED), message)
        if event.reason == RunState.FAILED:
            self._note(event.step, TimelineKind.NOTE, f"segment failed: {message}", {"remedy": remedy})

    def _executed(self, event: CodeExecuted) -> None:
        paths = sorted(event.modules.keys() | event.lines.keys())
        rows = [
            self._row(path=path, sha256=event.modules.get(path, ""), lines=sorted(set(event.lines.get(path, []))))
            for path in paths
        ]
        if not rows:
            return
        statement = insert(ExecutedFileRow)
        union = sa.text(
            "ARRAY(SELECT DISTINCT line FROM unnest(executed_file.lines || excluded.lines) AS line ORDER BY line)"
        )
        known = sa.func.coalesce(sa.func.nullif(statement.excluded.sha256, ""), ExecutedFileRow.sha256)
        merge = {"sha256": known, "lines": union}
        keys = ["run_id", "segment", "path"]
        self._connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=merge), rows)

    # --- what comes now and then

    def _effective(self, event: Effective) -> None:
        after = redact_fields(with_short_keys(event.values))
        before = load_config(self._connection, self._run_id, self._segment, "effective", event.step - 1)
        known: list[tuple[str, Any]] = []
        if not before:
            previous = self._predecessor or self._stored_predecessor()
            if previous is not None:
                before = load_config(self._connection, previous.run_id, previous.segment, "effective", event.step - 1)
                declared = load_config(self._connection, self._run_id, self._segment, "declared")
                known = [(key, value) for key, value in declared.items() if previous.declared.get(key) != value]
        self._timeline += effective_changes(self._run_id, self._segment, event.step, before, after, self._now, known)
        rows = [self._row(source="effective", step=event.step, key=k, value=v) for k, v in after.items()]
        self._upsert(ConfigValueRow, rows, ["value"])

    def _checkpoint(self, event: CheckpointSaved) -> None:
        row = self._row(step=event.step, path=event.path, sha256=event.sha256, size_bytes=event.size_bytes)
        self._upsert(CheckpointRow, [row], ["path", "sha256", "size_bytes"])
        detail = {"path": event.path, "sha256": event.sha256}
        self._note(event.step, TimelineKind.CHECKPOINT, f"checkpoint at step {event.step}", detail)

    # --- what comes every step

    def _metrics(self, events: Sequence[Metrics]) -> None:
        if not events:
            return
        filled = [event for event in events if event.values]
        number = points.run_number(self._connection, self._run_id)
        sets = SeriesSets().resolve(self._connection, self._run_id, number, (tuple(event.values) for event in filled))
        frames = [sets[tuple(event.values)].frame(event.step, packed_values(event.values.values())) for event in filled]
        points.append(self._connection, number, self._segment, frames)
        advance(self._connection, self._run_id, self._segment, max(event.step for event in events))

    def _data_reads(self, events: Iterable[DataRead]) -> None:
        newest = {event.step: event for event in events}
        rows = [self._row(step=e.step, sample_hash=e.sample_hash, position=e.position) for e in newest.values()]
        self._upsert(DataReadRow, rows, ["sample_hash", "position"])

    # --- predecessors and small things

    def _find_predecessor(self, start: SegmentStarted) -> Predecessor | None:
        """The previous segment of this run, else the one of the parent that made the step we start from."""
        earlier = sa.select(SegmentRow.__table__).order_by(SegmentRow.number.desc()).limit(1)
        row = self._connection.execute(
            earlier.where(SegmentRow.run_id == self._run_id, SegmentRow.number < self._segment)
        ).one_or_none()
        if row is None:
            parent = sa.select(RunRow.parent_run_id).where(RunRow.id == self._run_id).scalar_subquery()
            at_start = (SegmentRow.start_step < start.start_step) | (SegmentRow.start_step == 0)
            row = self._connection.execute(earlier.where(SegmentRow.run_id == parent, at_start)).one_or_none()
        if row is None:
            return None
        return Predecessor(
            run_id=row.run_id,
            segment=row.number,
            code_version=row.code_version,
            seed=row.seed,
            declared=load_config(self._connection, row.run_id, row.number, "declared"),
            environment=row.environment,
        )

    def _stored_predecessor(self) -> Predecessor | None:
        """As found when the segment started, in an earlier batch."""
        row = self._connection.execute(self._mine(sa.select(SegmentRow.__table__))).one()
        start = SegmentStarted(
            run_id=self._run_id,
            segment=self._segment,
            start_step=row.start_step,
            code_version=row.code_version,
            seed=row.seed,
            dp_size=row.dp_size,
            start_checkpoint=row.start_checkpoint,
            config={},
            environment={},
            wall_time=row.started_at,
        )
        return self._find_predecessor(start)

    def _set_run_state(self, state: RunState, message: str) -> None:
        """Only the newest segment says how the run is."""
        newer = sa.select(SegmentRow.number).where(SegmentRow.run_id == self._run_id, SegmentRow.number > self._segment)
        update = sa.update(RunRow).where(RunRow.id == self._run_id, ~newer.exists())
        self._connection.execute(update.values(state=state, message=message))

    def _note(self, step: int, kind: TimelineKind, title: str, detail: dict[str, str]) -> None:
        event = TimelineEvent(
            run_id=self._run_id, segment=self._segment, step=step, kind=kind, title=title, detail=detail, at=self._now
        )
        self._timeline.append(event)

    def _mine(self, statement: Any) -> Any:
        return statement.where(SegmentRow.run_id == self._run_id, SegmentRow.number == self._segment)

    def _row(self, **values: Any) -> dict[str, Any]:
        return {"run_id": self._run_id, "segment": self._segment, **values}

    def _upsert(self, table: type[Base], rows: list[dict[str, Any]], columns: list[str]) -> None:
        """Insert; of rows that are there already, replace `columns`."""
        if not rows:
            return
        statement = insert(table)
        keys = [column.name for column in sa.inspect(table).primary_key]
        replace = {column: getattr(statement.excluded, column) for column in columns}
        self._connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=replace), rows)


_GOING_ON: dict[str, Any] = {"ended_at": None, "end_reason": "", "message": "", "remedy": ""}
_END_STATES = {
    "completed": RunState.COMPLETED,
    "stopped": RunState.STOPPED,
    "failed": RunState.FAILED,
}
