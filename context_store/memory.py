"""What agents and people remember across runs (RM2-7.14): every entry names its source; none is changed or erased.

Under one key of one project stands a line of entries, each superseding the one before; the last one holds.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from context_store.database import Database
from context_store.evidence import require_stored
from context_store.models import MemoryRow
from context_store.records import Memory
from context_store.redaction import redact
from contracts.enums import MemoryKind
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef


class Memories:
    def __init__(self, database: Database) -> None:
        self._database = database

    def remember(
        self,
        key: str,
        text: str,
        *,
        kind: MemoryKind,
        evidence: Sequence[EvidenceRef],
        author: str,
        at: float,
        project_id: str = "",
    ) -> Memory:
        """The new entry, which supersedes what held under the key; the one that holds, when it says the same.

        Raises UserInputError without a key, a text, an author or stored evidence, or when somebody else was faster.
        """
        if not (key.strip() and text.strip() and author.strip() and evidence):
            raise UserInputError(
                "a memory needs a key, a text, an author and evidence",
                remedy="say what it rests on, for instance investigation:CASE",
            )
        text = redact(text)
        held = self.holds(key, project_id)
        if held is not None and (held.text, held.kind, held.evidence) == (text, kind, tuple(evidence)):
            return held
        with self._database.begin() as connection:
            require_stored(connection, tuple(evidence))
        values = {"text": text, "kind": kind, "evidence": tuple(evidence), "retired": False}
        return self._append(key, project_id, author, at, values)

    def retire(self, key: str, reason: str, *, author: str, at: float, project_id: str = "") -> Memory:
        """Nothing holds under the key any more; the entries stay readable. Raises NotFound when nothing holds."""
        held = self.holds(key, project_id)
        if held is None:
            raise NotFound(f"nothing is remembered under '{key}'", remedy="look at what is remembered first")
        values = {"text": redact(reason), "kind": held.kind, "evidence": held.evidence, "retired": True}
        return self._append(key, project_id, author, at, values)

    def holds(self, key: str, project_id: str = "") -> Memory | None:
        """What holds under the key; None when nothing does."""
        line = self.line(key, project_id)
        return line[-1] if line and not line[-1].retired else None

    def line(self, key: str, project_id: str = "") -> builtins.list[Memory]:
        """Everything that ever stood under the key, oldest first."""
        here = (MemoryRow.key == redact(key)) & (MemoryRow.project_id == project_id)
        with self._database.begin() as connection:
            rows = connection.execute(_MEMORY.where(here).order_by(MemoryRow.id))
            return [Memory(**row._mapping) for row in rows]

    def list(self, project_id: str | None = None) -> builtins.list[Memory]:
        """What holds now, newest first; with a project, its own entries and those that hold everywhere."""
        later = sa.select(MemoryRow.supersedes).where(MemoryRow.supersedes.is_not(None))
        query = _MEMORY.where(MemoryRow.id.not_in(later), ~MemoryRow.retired).order_by(MemoryRow.id.desc())
        if project_id is not None:
            query = query.where(MemoryRow.project_id.in_(("", project_id)))
        with self._database.begin() as connection:
            return [Memory(**row._mapping) for row in connection.execute(query)]

    def _append(self, key: str, project_id: str, author: str, at: float, values: dict[str, Any]) -> Memory:
        line = self.line(key, project_id)
        whole = {"key": redact(key), "project_id": project_id, "author": author, "at": at, **values}
        whole["supersedes"] = line[-1].id if line else None
        statement = sa.insert(MemoryRow).values(**whole).returning(*MemoryRow.__table__.columns)
        try:
            with self._database.begin() as connection:
                return Memory(**connection.execute(statement).one()._mapping)
        except IntegrityError as error:
            raise UserInputError(
                f"somebody else wrote under '{key}' at the same time", remedy="read what holds now, then try again"
            ) from error


_MEMORY = sa.select(MemoryRow.__table__)
