"""Writes what a reader finds into the store: runs that look like any other run.

Each piece is one transaction and idempotent, so an import that was killed is finished by importing again. The store
tells how many points of a piece it did not have yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from context_store import points
from context_store.arrays import Points
from context_store.database import Database
from context_store.dictionary import series_ids
from context_store.importers.commits import distrust_contradicted_commit
from context_store.importers.items import Column, Ended, Fact, FoundNegative, FoundRun, FoundScore, FoundSegment
from context_store.importers.relations import link_forks
from context_store.importers.report import RunReport
from context_store.importers.score_lineage import add_scores
from context_store.importers.sinks import Detail, run_id_of
from context_store.importers.starts import Starts, add_original_names, mark
from context_store.lineage import advance
from context_store.loader import SegmentLoader
from context_store.models import RunRow, SegmentRow
from context_store.negatives import Negatives
from context_store.projects import Projects
from context_store.records import EffectSize, NegativeResult, NewRun, Project, TimelineEvent
from context_store.redaction import redact, redact_fields, redact_json
from context_store.runs import Runs
from context_store.series import seal_run
from context_store.streams import ELSEWHERE
from context_store.timeline import Timeline, add_events
from contracts.enums import RunRole, RunState, TimelineKind
from contracts.errors import NotFound
from contracts.events import Event, Finished, SegmentStarted
from contracts.evidence import EvidenceRef

_UNKNOWN_END = "the source does not say how it ended"
_FACTS_A_TIME = 1000
_YEAR_9999 = 253_370_764_800.0


class StoreSink:
    """`how`: the source's format, for the note on the run. `following`: runs without an end count as running."""

    def __init__(self, database: Database, *, how: str, actor: str, following: bool = False) -> None:
        self._database = database
        self._how = how
        self._actor = actor
        self._following = following
        self._facts: list[TimelineEvent] = []
        self._scores: list[FoundScore] = []
        self._segment = FoundSegment(number=-1, start_step=0)
        self._ended = False

    def begin_run(self, run: FoundRun, report: RunReport) -> None:
        self._report = report
        report.num_new = 0
        self._segment = FoundSegment(number=-1, start_step=0)
        _make_project(self._database, report, self._actor)
        parent = run_id_of(report.project_id, *run.parent) if run.parent else None
        Runs(self._database).create(
            NewRun(
                id=report.run_id,
                project_id=report.project_id,
                name=_text(redact(run.name)),
                role=RunRole.TRAINING,
                folder=_text(f"{ELSEWHERE}{redact(run.origin)}"),
                parent_run_id=parent if parent and _exists(self._database, parent) else None,
                parent_step=run.parent_step,
                owner=self._actor,
            )
        )
        with self._database.begin() as connection:
            self._starts = Starts(connection, report.run_id)

    def begin_segment(self, segment: FoundSegment) -> None:
        self._end_segment()
        self._starts.check(segment, segment.origin or self._report.origin)
        self._segment, self._ended = segment, False
        started = SegmentStarted(
            run_id=self._report.run_id,
            segment=segment.number,
            start_step=segment.start_step,
            code_version=segment.code_version,
            seed=segment.seed if abs(segment.seed) < 2**63 else 0,
            dp_size=1,
            start_checkpoint=redact(segment.start_checkpoint),
            config=self._config(segment),
            environment=_storable(segment.environment),
            wall_time=_moment(segment.started_at),
        )
        self._load(started)
        self._facts.append(self._event(self._note(segment)))
        self._write_facts()

    def write(self, columns: Mapping[str, Column]) -> int:
        run_id, segment = self._report.run_id, self._segment.number
        with self._database.begin() as connection:
            number = points.lock_run(connection, run_id)
            ids = series_ids(connection, run_id, columns)
            parts = [Points.of(ids[name], segment, *columns[name]) for name in sorted(columns, key=ids.__getitem__)]
            new = points.write(connection, number, [Points.join(parts)])
            advance(connection, run_id, segment, max(int(steps.max()) for steps, _ in columns.values()))
        return new

    def take(self, item: Detail) -> None:
        if isinstance(item, Ended):
            self._finish(item)
            return
        if isinstance(item, FoundScore):
            self._scores.append(item)
            return
        event = self._event(item if isinstance(item, Fact) else item.fact)
        if isinstance(item, FoundNegative):
            self._add_negative(item, Timeline(self._database).add(event))
            return
        self._facts.append(event)
        if len(self._facts) >= _FACTS_A_TIME:
            self._write_facts()

    def end_run(self) -> None:
        if self._segment.number >= 0:
            self._end_segment()
            self._facts += map(self._event, add_scores(self._database, self._scores, self._report, self._actor))
            self._scores = []
            self._write_facts()
            with self._database.begin() as connection:
                add_original_names(connection, self._report.run_id, redact_json(_clean(self._report.renamed)))
                distrust_contradicted_commit(connection, self._report.run_id, self._segment.number)
                link_forks(connection, self._report.run_id)
        seal_run(self._database, self._report.run_id, last=True)

    # --- parts

    def _config(self, segment: FoundSegment) -> dict[str, Any]:
        """What an earlier import saw while this start was the last says more than what the run ends with."""
        stored = Runs(self._database).declared(self._report.run_id, segment.number) if segment.config_came_later else {}
        return stored or _storable(segment.config)

    def _load(self, *events: Event) -> None:
        run_id, number = self._report.run_id, self._segment.number
        with self._database.begin() as connection:
            points.lock_run(connection, run_id)
            now = self._database.clock()
            SegmentLoader(connection, run_id, number, Path(self._report.origin), now=now).load(events)

    def _end_segment(self) -> None:
        self._write_facts()
        if self._segment.number >= 0 and not self._ended and not self._following:
            self._finish(Ended(state=RunState.STOPPED, message=_UNKNOWN_END))

    def _finish(self, ended: Ended) -> None:
        self._ended = True
        if ended.state == RunState.RUNNING:
            return
        step = max(self._report.last_step or 0, self._segment.start_step)
        self._load(Finished(step=step, reason=ended.state, message=ended.message))
        mine = (SegmentRow.run_id == self._report.run_id) & (SegmentRow.number == self._segment.number)
        with self._database.begin() as connection:  # the loader stamps its own time, which is not when the run ended
            at = None if ended.at is None else _moment(ended.at)
            connection.execute(sa.update(SegmentRow).where(mine).values(ended_at=at))

    def _note(self, segment: FoundSegment) -> Fact:
        origin = segment.origin or self._report.origin
        detail = {"format": self._how, "origin": origin, "start": mark(segment)}
        title = f"imported from {self._how}: {Path(origin).name}"
        return Fact(step=segment.start_step, kind=TimelineKind.NOTE, title=title, detail=detail)

    def _event(self, fact: Fact) -> TimelineEvent:
        return TimelineEvent(
            run_id=self._report.run_id,
            segment=max(0, self._segment.number),
            step=fact.step,
            kind=fact.kind,
            title=_text(redact(fact.title)),
            detail=redact_json(_clean(fact.detail)),
            at=_moment(fact.at) or _moment(self._segment.started_at) or self._database.clock(),
        )

    def _write_facts(self) -> None:
        with self._database.begin() as connection:
            add_events(connection, self._facts)
        self._facts = []

    def _add_negative(self, found: FoundNegative, event: TimelineEvent) -> None:
        Negatives(self._database).add(
            NegativeResult(
                claim=redact(found.claim),
                intervention=redact(found.intervention),
                context=redact_fields(_storable(found.context)),
                expected=redact(found.expected),
                observed=redact(found.observed),
                reason_class=found.reason_class,
                reason=redact(found.reason),
                evidence=(EvidenceRef(kind="event", id=str(event.id)),),
                reopen_if=redact(found.reopen_if),
                investigation_id=None,
                actor=self._actor,
                project_id=self._report.project_id,
                scale=found.scale,
                code_version=found.code_version,
                observed_effect=_effect(found),
                at=_moment(found.fact.at),
            )
        )


def _effect(found: FoundNegative) -> EffectSize | None:
    if found.effect is None:
        return None
    what, before, after = found.effect
    return EffectSize(what=what, value=after - before)


def _make_project(database: Database, report: RunReport, owner: str) -> None:
    projects = Projects(database)
    try:
        projects.get(report.project_id)
    except NotFound:
        path = _text(f"{ELSEWHERE}{redact(report.origin)}")
        projects.put(Project(id=report.project_id, path=path, owner=owner))


def _exists(database: Database, run_id: str) -> bool:
    with database.begin() as connection:
        return connection.execute(sa.select(RunRow.id).where(RunRow.id == run_id)).scalar() is not None


def _storable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what text in Postgres cannot hold: NUL and lone surrogates."""
    return {_text(key): _text(value) if isinstance(value, str) else value for key, value in fields.items()}


def _text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "backslashreplace").decode()


def _moment(unix_s: float) -> float:
    """A time that a calendar has; 0.0, unknown, for anything else."""
    return unix_s if 0.0 <= unix_s < _YEAR_9999 else 0.0


def _clean(value: Any) -> Any:
    """JSON that Postgres can hold, at any depth."""
    if isinstance(value, Mapping):
        return {_text(str(key)): _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return _text(value) if isinstance(value, str) else value
