"""Runs: what they are, their segments, checkpoints, configuration, data order and executed code."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.canonical import content_hash
from context_store.database import Database
from context_store.lineage import load_lineage
from context_store.models import (
    CheckpointRow,
    ConfigValueRow,
    DataReadRow,
    ExecutedFileRow,
    ProjectRow,
    RunRow,
    SegmentRow,
)
from context_store.records import (
    UNKNOWN_OWNER,
    Checkpoint,
    ConfigChange,
    DataReads,
    Executed,
    NewRun,
    Run,
    RunTableRow,
    Segment,
)
from context_store.redaction import redact
from context_store.run_table import run_table
from contracts.enums import RunRole, RunState
from contracts.errors import NotFound
from contracts.events import Scalar

_MAX_KEY_CHARACTERS = 500


class Runs:
    """Reads what ingest wrote; writes only that a run exists and its state."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, run: NewRun) -> Run:
        """Idempotent by id: the first one stays. Raises NotFound for an unknown project or parent."""
        statement = insert(RunRow).values(
            id=run.id,
            project_id=run.project_id,
            name=redact(run.name),
            role=run.role,
            folder=run.folder,
            parent_run_id=run.parent_run_id,
            parent_step=run.parent_step,
            investigation_id=run.investigation_id,
            state=RunState.CREATED,
            message="",
            last_step=run.parent_step or 0,
            created_at=self._database.clock(),
            owner=_owner(run, self._database.owner),
        )
        with self._database.begin() as connection:
            connection.execute(statement.on_conflict_do_nothing())
        return self.get(run.id)

    def get(self, run_id: str) -> Run:
        """Raises NotFound."""
        with self._database.read() as connection:
            row = connection.execute(_ONE_RUN, {"run_id": run_id}).one_or_none()
        if row is None:
            raise NotFound(f"no run '{run_id}'", remedy="`lathe runs` lists the runs")
        return Run(**row._mapping)

    def list(
        self,
        project_id: str | None = None,
        role: RunRole | None = None,
        limit: int = 50,
        before: str | None = None,
        investigation_id: str | None = None,
        states: Collection[RunState] | None = None,
    ) -> builtins.list[Run]:
        """Newest first; `before`: only runs older than the one with this id."""
        query = _RUN.order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(limit)
        if project_id is not None:
            query = query.where(RunRow.project_id == project_id)
        if role is not None:
            query = query.where(RunRow.role == role)
        if investigation_id is not None:
            query = query.where(RunRow.investigation_id == investigation_id)
        if states is not None:
            query = query.where(RunRow.state.in_(states))
        if before is not None:
            other = sa.select(RunRow.created_at, RunRow.id).where(RunRow.id == before).scalar_subquery()
            query = query.where(sa.tuple_(RunRow.created_at, RunRow.id) < other)
        with self._database.read() as connection:
            return [Run(**row._mapping) for row in connection.execute(query)]

    def table(
        self,
        project_id: str | None = None,
        metrics: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> builtins.list[RunTableRow]:
        """Runs as in `list`, with latest values and declared configuration (None: of all names); any number of runs
        takes the same few queries."""
        runs = self.list(project_id=project_id, limit=limit, before=before)
        with self._database.snapshot() as connection:
            return run_table(connection, runs, metrics, keys)

    def set_state(self, run_id: str, state: RunState, message: str = "") -> None:
        statement = sa.update(RunRow).where(RunRow.id == run_id).values(state=state, message=redact(message))
        with self._database.begin() as connection:
            connection.execute(statement)

    def segments(self, run_id: str) -> builtins.list[Segment]:
        """Ascending by number."""
        query = sa.select(SegmentRow.__table__).where(SegmentRow.run_id == run_id).order_by(SegmentRow.number)
        with self._database.read() as connection:
            return [Segment(**row._mapping) for row in connection.execute(query)]

    def checkpoints(self, run_id: str) -> builtins.list[Checkpoint]:
        """All of them, superseded ones too, ascending by (step, segment)."""
        query = _CHECKPOINT.where(CheckpointRow.run_id == run_id).order_by(CheckpointRow.step, CheckpointRow.segment)
        with self._database.read() as connection:
            return [Checkpoint(**row._mapping) for row in connection.execute(query)]

    def checkpoint_at_or_before(self, run_id: str, step: int) -> Checkpoint | None:
        """The newest one the run's canonical history passed through, at most at `step`."""
        with self._database.snapshot() as connection:
            lineage = load_lineage(connection, run_id)
            where = (CheckpointRow.run_id == run_id) & (CheckpointRow.step <= step)
            order = (CheckpointRow.step.desc(), CheckpointRow.segment.desc())
            for row in connection.execute(_CHECKPOINT.where(where).order_by(*order)):
                if lineage.counts(row.segment, row.step):
                    return Checkpoint(**row._mapping)
        return None

    def declared(self, run_id: str, segment: int) -> dict[str, Scalar]:
        """What the configuration said, flat with dotted keys."""
        return self._config(run_id, segment, "declared", None)

    def effective(self, run_id: str, segment: int, step: int | None = None) -> dict[str, Scalar]:
        """What was really used at `step` (None: last known)."""
        return self._config(run_id, segment, "effective", step)

    def data_reads(self, run_id: str) -> DataReads:
        """The samples of the canonical history."""
        query = (
            sa.select(DataReadRow.step, DataReadRow.segment, DataReadRow.sample_hash, DataReadRow.position)
            .where(DataReadRow.run_id == run_id)
            .order_by(DataReadRow.step, DataReadRow.segment)
        )
        with self._database.snapshot() as connection:
            lineage = load_lineage(connection, run_id)
            rows = [row for row in connection.execute(query) if lineage.counts(row.segment, row.step)]
        return DataReads(
            steps=np.array([row.step for row in rows], dtype=np.int64),
            segments=np.array([row.segment for row in rows], dtype=np.int32),
            hashes=tuple(row.sample_hash for row in rows),
            positions=np.array([row.position for row in rows], dtype=np.int64),
        )

    def executed(self, run_id: str, segment: int) -> Executed:
        query = sa.select(ExecutedFileRow.path, ExecutedFileRow.sha256, ExecutedFileRow.lines).where(
            ExecutedFileRow.run_id == run_id, ExecutedFileRow.segment == segment
        )
        with self._database.begin() as connection:
            rows = connection.execute(query.order_by(ExecutedFileRow.path)).all()
        return Executed(
            modules={row.path: row.sha256 for row in rows if row.sha256},
            lines={row.path: tuple(row.lines) for row in rows if row.lines},
        )

    def _config(self, run_id: str, segment: int, source: str, step: int | None) -> dict[str, Scalar]:
        with self._database.begin() as connection:
            return load_config(connection, run_id, segment, source, step)


def load_config(
    connection: sa.Connection, run_id: str, segment: int, source: str, step: int | None = None
) -> dict[str, Scalar]:
    """Fields of one segment as they stood at `step` (None: at its end). `source`: declared or effective."""
    query = (
        sa.select(ConfigValueRow.key, ConfigValueRow.value)
        .where(ConfigValueRow.run_id == run_id, ConfigValueRow.segment == segment, ConfigValueRow.source == source)
        .order_by(ConfigValueRow.key, ConfigValueRow.step.desc())
        .distinct(ConfigValueRow.key)
    )
    if step is not None:
        query = query.where(ConfigValueRow.step <= step)
    return {row.key: row.value for row in connection.execute(query)}


def _owner(run: NewRun, opener: str) -> sa.ColumnElement[str]:
    of_parent = sa.select(RunRow.owner).where(RunRow.id == run.parent_run_id).scalar_subquery()
    of_project = sa.select(ProjectRow.owner).where(ProjectRow.id == run.project_id).scalar_subquery()
    known = None if opener == UNKNOWN_OWNER else opener
    return sa.func.coalesce(run.owner or None, of_parent, known, of_project, UNKNOWN_OWNER)


def with_short_keys(fields: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Keys that are too long for an index are cut, and end with a hash of the whole."""
    return {
        key if len(key) <= _MAX_KEY_CHARACTERS else f"{key[: _MAX_KEY_CHARACTERS - 17]}~{content_hash(key)[:16]}": value
        for key, value in fields.items()
    }


def diff_config(a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> tuple[ConfigChange, ...]:
    """Fields by which `b` differs from `a`, sorted by key. 1 and True differ, 1 and 1.0 do not; NaN equals NaN."""
    changes = []
    for key in sorted(a.keys() | b.keys()):
        before, after = a.get(key), b.get(key)
        if key in a and key in b and same_value(before, after):
            continue
        status = "added" if key not in a else "removed" if key not in b else "changed"
        changes.append(ConfigChange(key=key, before=before, after=after, status=status))
    return tuple(changes)


def same_value(a: Scalar, b: Scalar) -> bool:
    """Equality of configuration values as in `diff_config`."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return a == b or (a != a and b != b)


_RUN = sa.select(*(column for column in sa.inspect(RunRow).columns if column.name != "number"))
_ONE_RUN = _RUN.where(RunRow.id == sa.bindparam("run_id"))
_CHECKPOINT = sa.select(CheckpointRow.__table__)
