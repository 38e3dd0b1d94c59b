"""The ledger: who did what on which evidence. It only grows (a trigger holds that)."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from context_store.database import Database
from context_store.models import LedgerRow
from context_store.records import LedgerEntry, Principal
from context_store.redaction import redact_json
from context_store.shares import Shares, shares
from contracts.evidence import EvidenceRef

_REQUEST = "request"
_MAX_PATH = 500


class Ledger:
    def __init__(self, database: Database) -> None:
        self._database = database

    def append(
        self,
        actor: str,
        action: str,
        subject: str,
        detail: Mapping[str, Any],
        evidence: Sequence[EvidenceRef],
        at: float,
    ) -> LedgerEntry:
        """`subject` is the text form of an evidence reference. Raises UserInputError when it is not."""
        EvidenceRef.parse(subject)
        with self._database.begin() as connection:
            return append_entry(
                connection, actor=actor, action=action, subject=subject, detail=detail, evidence=evidence, at=at
            )

    def note_request(self, principal: Principal, method: str, path: str, detail: Mapping[str, Any], at: float) -> None:
        """Somebody asked over HTTP to change something, or was refused; `path` is percent-encoded."""
        subject = f"{_REQUEST}:{path[:_MAX_PATH]}"
        whole = {"role": principal.role.value, **detail}
        with self._database.begin() as connection:
            append_entry(
                connection, actor=principal.name, action=method, subject=subject, detail=whole, evidence=(), at=at
            )

    def shares(self, since: float, until: float) -> Shares:
        """Which part of the work each actor did between the two times."""
        return shares(self._database, since, until)

    def list(
        self, subject: str | None = None, limit: int = 200, *, actor: str | None = None, before: int | None = None
    ) -> builtins.list[LedgerEntry]:
        """Newest first; `before`: only entries older than the one with this id."""
        query = sa.select(LedgerRow.__table__).order_by(LedgerRow.id.desc()).limit(limit)
        if subject is not None:
            query = query.where(LedgerRow.subject == subject)
        if actor is not None:
            query = query.where(LedgerRow.actor == actor)
        if before is not None:
            query = query.where(LedgerRow.id < before)
        with self._database.begin() as connection:
            return [LedgerEntry(**row._mapping) for row in connection.execute(query)]


def append_entry(
    connection: sa.Connection,
    *,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, Any],
    evidence: Sequence[EvidenceRef],
    at: float,
) -> LedgerEntry:
    """The entry becomes part of the caller's transaction."""
    values: dict[str, Any] = {
        "actor": actor,
        "action": action,
        "subject": subject,
        "detail": redact_json(detail),
        "evidence": tuple(evidence),
        "at": at,
    }
    entry_id = connection.execute(sa.insert(LedgerRow).values(**values).returning(LedgerRow.id)).scalar_one()
    return LedgerEntry(id=entry_id, **values)
