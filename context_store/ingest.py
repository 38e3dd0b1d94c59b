"""The shipper: loads run folders (contracts.events) into the store, exactly once.

Rows and the log's offset are written in one transaction. These transactions need not survive an operating system
crash (synchronous_commit off): offset and rows are lost together and loaded again. All loads are idempotent
besides, so a lost offset costs time, not correctness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.dictionary import MAX_NAME_CHARACTERS
from context_store.loader import SegmentLoader
from context_store.models import RunRow, ShipmentRow
from context_store.points import lock_run
from context_store.series import seal_run
from contracts.errors import LogFormatError, NotFound
from contracts.events import Event, Finished, Metrics, read_events, segment_folder

BATCH_EVENTS = 1024


class Ingest:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ship(self, run_id: str, folder: Path) -> int:
        """Load what was appended to the run's logs since the last time; returns the number of events.

        May be called at any time, by several processes, after any crash. A torn last line waits for its rest. When a
        segment ends, the run's points are sealed.
        Raises NotFound for an unknown run. A damaged record raises LogFormatError with file and byte position after
        everything before it, and all other segments, were kept.
        """
        offsets = self._offsets(run_id)
        num_events, ended, damage = 0, False, None
        for segment, log in _logs(folder):
            if log.stat().st_size == offsets.get(segment):
                continue
            while True:
                batch = self._load(run_id, segment, log)
                num_events += batch.num_events
                ended |= batch.ended
                damage = damage or batch.damage
                if batch.num_events < BATCH_EVENTS:
                    break
        if ended:
            seal_run(self._database, run_id, last=True)
        if damage is not None:
            raise damage
        return num_events

    def _offsets(self, run_id: str) -> dict[int, int]:
        shipments = sa.select(ShipmentRow.segment, ShipmentRow.offset_bytes).where(ShipmentRow.run_id == run_id)
        with self._database.begin() as connection:
            offsets = {row.segment: row.offset_bytes for row in connection.execute(shipments)}
            if not offsets and not connection.execute(sa.select(RunRow.id).where(RunRow.id == run_id)).scalar():
                raise NotFound(f"no run '{run_id}'", remedy="create the run before its logs are loaded")
        return offsets

    def _load(self, run_id: str, segment: int, log: Path) -> _Batch:
        """One transaction: up to BATCH_EVENTS events and the offset behind them."""
        with self._database.begin() as connection:
            connection.execute(sa.select(sa.func.set_config("synchronous_commit", "off", True)))
            lock_run(connection, run_id)
            mine = sa.select(ShipmentRow.offset_bytes).where(
                ShipmentRow.run_id == run_id, ShipmentRow.segment == segment
            )
            offset = connection.execute(mine).scalar() or 0
            if log.stat().st_size < offset:  # another file took its place
                offset = 0
            events, end_offset, damage = _read(log, offset)
            loader = SegmentLoader(connection, run_id, segment, log, now=self._database.clock())
            loader.load(events)
            values = {"run_id": run_id, "segment": segment, "offset_bytes": end_offset}
            upsert = insert(ShipmentRow).values(**values)
            connection.execute(upsert.on_conflict_do_update(index_elements=["run_id", "segment"], set_=values))
        ended = any(isinstance(event, Finished) for event in events)
        return _Batch(num_events=len(events), ended=ended, damage=damage)


@dataclass(frozen=True, kw_only=True)
class _Batch:
    num_events: int
    ended: bool
    damage: LogFormatError | None


def _logs(folder: Path) -> Iterator[tuple[int, Path]]:
    """Segments that have a log, ascending."""
    for path in sorted(folder.glob("segment-*/events.log")):
        number = path.parent.name.removeprefix("segment-")
        if number.isdigit() and segment_folder(folder, int(number)) == path.parent:
            yield int(number), path


def _read(log: Path, offset: int) -> tuple[list[Event], int, LogFormatError | None]:
    """Events from `offset` on, the offset behind the last of them, and the damage that ended reading."""
    events: list[Event] = []
    try:
        for read in read_events(log, offset=offset):
            _check(read.event, log, offset)
            events.append(read.event)
            offset = read.end_offset
            if len(events) == BATCH_EVENTS:
                break
    except LogFormatError as damage:
        return events, offset, damage
    return events, offset, None


def _check(event: Event, log: Path, offset: int) -> None:
    """Raises LogFormatError for what the framing lets through but no row can hold."""
    problem = ""
    if not isinstance(getattr(event, "step", 0), int):
        problem = "the step is no whole number"
    elif isinstance(event, Metrics):
        if not all(isinstance(value, int | float) for value in event.values.values()):
            problem = f"step {event.step} has a value that is no number"
        elif "\0" in "".join(event.values) or any(len(name) > MAX_NAME_CHARACTERS for name in event.values):
            problem = f"step {event.step} has a name with a NUL or of more than {MAX_NAME_CHARACTERS} characters"
    if problem:
        raise LogFormatError(
            f"{log} at byte {offset}: {problem}",
            remedy="log numbers (NaN and infinities are numbers) under short names; what stands before was kept",
        )
