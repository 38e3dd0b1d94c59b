"""Step-indexed changes and happenings of a run."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.models import TimelineRow
from context_store.records import TimelineEvent
from context_store.redaction import redact, redact_json
from context_store.token_counts import TokenCounts, token_counts
from contracts.enums import TimelineKind
from contracts.errors import NotFound

MAX_TITLE_CHARACTERS = 200


class Timeline:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, event: TimelineEvent) -> TimelineEvent:
        """Idempotent by (run, segment, step, kind, title). An `at` of 0 becomes now. Raises NotFound for the run.

        A title is cut at MAX_TITLE_CHARACTERS; what is long belongs into `detail`. Secrets are taken out of both.
        """
        said = {"title": _short(redact(event.title)), "detail": redact_json(event.detail)}
        event = dataclasses.replace(event, at=event.at or self._database.clock(), **said)
        with self._database.begin() as connection:
            add_events(connection, [event])
            row = connection.execute(
                sa.select(TimelineRow.__table__).where(
                    TimelineRow.run_id == event.run_id,
                    TimelineRow.segment == event.segment,
                    TimelineRow.step == event.step,
                    TimelineRow.kind == event.kind,
                    TimelineRow.title == event.title,
                )
            ).one()
        return TimelineEvent(**row._mapping)

    def get(self, event_id: int) -> TimelineEvent:
        """Raises NotFound."""
        query = sa.select(TimelineRow.__table__).where(TimelineRow.id == event_id)
        with self._database.begin() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFound(f"no timeline event {event_id}", remedy="`lathe timeline RUN --json` shows them with ids")
        return TimelineEvent(**row._mapping)

    def list(
        self,
        run_id: str,
        lo: int | None = None,
        hi: int | None = None,
        kinds: Collection[TimelineKind] | None = None,
    ) -> builtins.list[TimelineEvent]:
        """Ascending by (segment, step); `lo` and `hi` are inclusive."""
        query = sa.select(TimelineRow.__table__).where(TimelineRow.run_id == run_id)
        if lo is not None:
            query = query.where(TimelineRow.step >= lo)
        if hi is not None:
            query = query.where(TimelineRow.step <= hi)
        if kinds is not None:
            query = query.where(TimelineRow.kind.in_(kinds))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(TimelineRow.segment, TimelineRow.step, TimelineRow.id))
            return [TimelineEvent(**row._mapping) for row in rows]

    def tokens_seen(self, run_id: str) -> TokenCounts:
        """By step: `tokens_seen(run).between(list(run), lo, hi)` is what changed between so many tokens."""
        return token_counts(self._database, run_id)


def add_events(connection: sa.Connection, events: Collection[TimelineEvent]) -> None:
    """Insert those that are not there yet."""
    if not events:
        return
    rows = [{f.name: getattr(e, f.name) for f in dataclasses.fields(e) if f.name != "id"} for e in events]
    for row in rows:
        row["title"] = _short(row["title"])
    connection.execute(insert(TimelineRow).on_conflict_do_nothing(), rows)


def _short(title: str) -> str:
    return title if len(title) <= MAX_TITLE_CHARACTERS else title[: MAX_TITLE_CHARACTERS - 1] + "…"
