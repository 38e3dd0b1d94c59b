"""Streams: the logs of trainings elsewhere, sent over HTTP, loaded exactly once.

A process keeps its log and sends it in pieces, each named by its byte offset in that log. Rows and the offset behind
the piece are written in one transaction that waits for the disk: what was acknowledged is kept, and what is sent
again, in whatever order, changes nothing.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from context_store.code import put_patch
from context_store.database import Database
from context_store.git_log import commit_of_patch
from context_store.loader import SegmentLoader
from context_store.models import RunRow, SegmentRow, StreamRow
from context_store.points import lock_run
from context_store.projects import Projects
from context_store.records import NewRun, NewStream, Project, Stream, TimelineEvent
from context_store.redaction import redact, redact_fields
from context_store.runs import Runs
from context_store.series import seal_run
from context_store.stream_lines import Note, Patch, parse_lines
from context_store.timeline import add_events
from contracts.enums import RunRole, TimelineKind
from contracts.errors import LogFormatError, NotFound, UserInputError
from contracts.events import Finished, SegmentStarted

ELSEWHERE = "elsewhere:"  # begins the folder of runs whose log is not on this machine


class Streams:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._runs = Runs(database)
        self._projects = Projects(database)

    def open(self, new: NewStream) -> Stream:
        """Idempotent by id. Makes project, run and segment when they are not there yet.

        Processes of one start share a segment; another start of the run gets the next one. Rank 0 describes the
        segment, others only until it comes. Raises UserInputError for a run that Lathe itself trains, NotFound for
        an unknown parent.
        """
        self._make_run(new)
        with self._database.begin() as connection:
            lock_run(connection, new.run_id)
            known = connection.execute(_STREAM.where(StreamRow.id == new.id)).one_or_none()
            if known is not None:
                return _same_run(Stream(**known._mapping), new)
            segment = _segment_of(connection, new)
            exists = sa.select(SegmentRow.number).where(SegmentRow.run_id == new.run_id, SegmentRow.number == segment)
            if new.rank == 0 or connection.execute(exists).scalar() is None:
                self._loader(connection, new.run_id, segment, new.id).load([_started(new, segment)])
            stream = Stream(
                id=new.id, run_id=new.run_id, start=new.start, rank=new.rank, segment=segment, offset_bytes=0
            )
            values = {column.name: getattr(stream, column.name) for column in sa.inspect(StreamRow).columns}
            connection.execute(sa.insert(StreamRow).values(**values))
        return stream

    def get(self, stream_id: str) -> Stream:
        """Raises NotFound."""
        with self._database.begin() as connection:
            return _load(connection, stream_id)

    def append(self, stream_id: str, offset: int, data: bytes) -> tuple[Stream, bool]:
        """Load whole lines that begin at byte `offset` of the stream's log; also returns whether the run ended.

        What lies before the known offset is skipped. A piece that begins behind it is taken too: only a store that
        was set back to an earlier state lacks what is between. Raises NotFound for an unknown stream, LogFormatError
        for a line that no training writes; then nothing of the piece is kept.
        """
        with self._database.begin() as connection:
            lock_run(connection, _load(connection, stream_id).run_id)
            stream = _load(connection, stream_id)
            data = data[max(0, stream.offset_bytes - offset) :]
            if not data:
                return stream, False
            offset = max(offset, stream.offset_bytes)
            ended = self._load_piece(connection, stream, offset, data)
            end = offset + len(data)
            moved = sa.update(StreamRow).where(StreamRow.id == stream_id).values(offset_bytes=end)
            row = connection.execute(moved.returning(StreamRow.__table__)).one()
        return Stream(**row._mapping), ended

    def seal(self, stream: Stream) -> int:
        """Compress the points of a run that ended; returns how many. Reads see no difference."""
        return seal_run(self._database, stream.run_id, last=True)

    def _load_piece(self, connection: sa.Connection, stream: Stream, offset: int, data: bytes) -> bool:
        where = f"stream {stream.id}"
        lines = parse_lines(data, where=where, offset=offset)
        events = [line for line in lines if not isinstance(line, Note | Patch)]
        if stream.rank != 0:  # rank 0 says how the run ended
            events = [event for event in events if not isinstance(event, Finished)]
        self._loader(connection, stream.run_id, stream.segment, stream.id).load(events)
        add_events(connection, [_event(stream, line) for line in lines if isinstance(line, Note)])
        for line in lines:
            if isinstance(line, Patch):
                self._load_patch(connection, stream, line)
        return any(isinstance(event, Finished) for event in events)

    def _load_patch(self, connection: sa.Connection, stream: Stream, line: Patch) -> None:
        """As a commit on its head, and as an event where the segment begins."""
        try:
            commit = commit_of_patch(line.version, line.head, line.patch, line.wall_time)
        except ValueError as error:
            raise LogFormatError(
                f"stream {stream.id}: {error}", remedy="leave this line out and send the rest; nothing was kept"
            ) from error
        project_id = connection.execute(sa.select(RunRow.project_id).where(RunRow.id == stream.run_id)).scalar_one()
        put_patch(connection, project_id, commit)
        begun = sa.select(SegmentRow.start_step).where(
            SegmentRow.run_id == stream.run_id, SegmentRow.number == stream.segment
        )
        detail = {"commit": line.version, "head": line.head}
        note = Note(
            step=connection.execute(begun).scalar_one(),
            what=TimelineKind.CODE,
            title=commit.subject,
            detail=detail,
            wall_time=line.wall_time,
        )
        add_events(connection, [_event(stream, note)])

    def _make_run(self, new: NewStream) -> None:
        try:
            self._projects.get(new.project_id)
        except NotFound:
            self._projects.put(Project(id=new.project_id, path=f"{ELSEWHERE}{new.origin}", owner=new.owner))
        run = self._runs.create(
            NewRun(
                id=new.run_id,
                project_id=new.project_id,
                name=redact(new.name) or new.run_id,
                role=RunRole.TRAINING,
                folder=f"{ELSEWHERE}{new.origin}",
                parent_run_id=new.parent_run_id,
                parent_step=new.parent_step,
                owner=new.owner,
            )
        )
        if not run.folder.startswith(ELSEWHERE):
            raise UserInputError(
                f"run {run.id} is trained by Lathe itself", remedy="choose another run id for what you log"
            )

    def _loader(self, connection: sa.Connection, run_id: str, segment: int, stream_id: str) -> SegmentLoader:
        return SegmentLoader(connection, run_id, segment, Path(f"stream {stream_id}"), now=self._database.clock())


_STREAM = sa.select(StreamRow.__table__)


def _load(connection: sa.Connection, stream_id: str) -> Stream:
    row = connection.execute(_STREAM.where(StreamRow.id == stream_id)).one_or_none()
    if row is None:
        raise NotFound(f"no stream '{stream_id}'", remedy="open it (again), then send from the offset that is named")
    return Stream(**row._mapping)


def _same_run(stream: Stream, new: NewStream) -> Stream:
    if (stream.run_id, stream.start, stream.rank) != (new.run_id, new.start, new.rank):
        raise LogFormatError(
            f"stream {stream.id} belongs to rank {stream.rank} of run {stream.run_id}",
            remedy="each process needs a stream id of its own",
        )
    return stream


def _segment_of(connection: sa.Connection, new: NewStream) -> int:
    """That of the same start, else the next number of the run."""
    same = sa.select(StreamRow.segment).where(StreamRow.run_id == new.run_id, StreamRow.start == new.start).limit(1)
    segment: int | None = connection.execute(same).scalar()
    if segment is None:
        highest = sa.select(sa.func.max(SegmentRow.number)).where(SegmentRow.run_id == new.run_id)
        segment = (-1 if (found := connection.execute(highest).scalar()) is None else found) + 1
    return segment


def _started(new: NewStream, segment: int) -> SegmentStarted:
    return SegmentStarted(
        run_id=new.run_id,
        segment=segment,
        start_step=new.start_step,
        code_version=new.code_version,
        seed=new.seed,
        dp_size=new.world_size,
        start_checkpoint=new.start_checkpoint,
        config=new.config,
        environment=new.environment,
        wall_time=new.wall_time,
    )


def _event(stream: Stream, note: Note) -> TimelineEvent:
    return TimelineEvent(
        run_id=stream.run_id,
        segment=stream.segment,
        step=note.step,
        kind=note.what,
        title=redact(note.title),
        detail=redact_fields(note.detail),
        at=note.wall_time,
    )
