"""The live feed that terminal and UI follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from context_store.database import Database
from context_store.models import ActivityRow
from context_store.records import Activity
from context_store.redaction import redact_code, redact_json

# Ids are given out before commit; one publisher at a time keeps `after` from skipping a late commit.
_PUBLISH_LOCK = 0x1A7F


class ActivityFeed:
    def __init__(self, database: Database) -> None:
        self._database = database

    def publish(
        self,
        kind: str,
        text: str,
        investigation_id: str | None = None,
        run_id: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Activity:
        """`kind`: progress, finding or approval. `text` names people, by e-mail address too: only keys go out of it."""
        values: dict[str, Any] = {
            "at": self._database.clock(),
            "kind": kind,
            "text": redact_code(text),
            "investigation_id": investigation_id,
            "run_id": run_id,
            "detail": redact_json(detail or {}),
        }
        with self._database.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_PUBLISH_LOCK)))
            new_id = connection.execute(sa.insert(ActivityRow).values(**values).returning(ActivityRow.id)).scalar_one()
        return Activity(id=new_id, **values)

    def newest(self, limit: int = 200) -> list[Activity]:
        """The last messages, ascending."""
        query = sa.select(ActivityRow.__table__).order_by(ActivityRow.id.desc()).limit(limit)
        with self._database.read() as connection:
            return [Activity(**row._mapping) for row in connection.execute(query)][::-1]

    def after(self, last_id: int, limit: int = 200, investigation_id: str | None = None) -> list[Activity]:
        """Messages with greater ids, ascending. Following the feed with the last id seen misses none."""
        query = sa.select(ActivityRow.__table__).where(ActivityRow.id > last_id)
        if investigation_id is not None:
            query = query.where(ActivityRow.investigation_id == investigation_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(ActivityRow.id).limit(limit))
            return [Activity(**row._mapping) for row in rows]
