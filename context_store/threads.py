"""Threads of chat: who asked what and what was answered, for everybody who shares the database."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.models import ChatExchangeRow, ChatThreadRow
from context_store.records import ChatExchange, ChatThread
from context_store.redaction import redact, redact_json
from contracts.errors import NotFound


class ChatThreads:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, thread: ChatThread) -> ChatThread:
        """Idempotent by id: the thread as it is stored, the first one that was given."""
        values = asdict(thread) | {"title": redact(thread.title)}
        del values["num_exchanges"]
        with self._database.begin() as connection:
            connection.execute(insert(ChatThreadRow).values(**values).on_conflict_do_nothing())
        return self.get(thread.id)

    def get(self, thread_id: str) -> ChatThread:
        """Raises NotFound."""
        with self._database.begin() as connection:
            row = connection.execute(_THREAD.where(ChatThreadRow.id == thread_id)).one_or_none()
        if row is None:
            raise _missing(thread_id)
        return ChatThread(**row._mapping)

    def list(self, *, run_id: str | None = None, investigation_id: str | None = None) -> builtins.list[ChatThread]:
        """Newest first."""
        query = _THREAD.order_by(ChatThreadRow.created_at.desc(), ChatThreadRow.id)
        if run_id is not None:
            query = query.where(ChatThreadRow.run_id == run_id)
        if investigation_id is not None:
            query = query.where(ChatThreadRow.investigation_id == investigation_id)
        with self._database.begin() as connection:
            return [ChatThread(**row._mapping) for row in connection.execute(query)]

    def add(self, thread_id: str, *, question: str, answer: Mapping[str, Any], actor: str, at: float) -> ChatExchange:
        """Kept for good when it returns. Raises NotFound without the thread."""
        values = {"thread_id": thread_id, "question": redact(question), "answer": redact_json(answer)}
        values |= {"actor": actor, "at": at}
        statement = sa.insert(ChatExchangeRow).values(**values).returning(*ChatExchangeRow.__table__.columns)
        with self._database.begin() as connection:
            return ChatExchange(**connection.execute(statement).one()._mapping)

    def exchanges(self, thread_id: str) -> builtins.list[ChatExchange]:
        """Oldest first; none for a thread that does not exist."""
        query = sa.select(ChatExchangeRow.__table__).where(ChatExchangeRow.thread_id == thread_id)
        with self._database.begin() as connection:
            return [ChatExchange(**row._mapping) for row in connection.execute(query.order_by(ChatExchangeRow.id))]

    def delete(self, thread_id: str) -> None:
        """The thread and its exchanges are gone; what was done because of them stays. Raises NotFound."""
        with self._database.begin() as connection:
            gone = sa.delete(ChatThreadRow).where(ChatThreadRow.id == thread_id).returning(ChatThreadRow.id)
            if connection.execute(gone).scalar() is None:
                raise _missing(thread_id)


_COUNT = sa.select(sa.func.count()).where(ChatExchangeRow.thread_id == ChatThreadRow.id).scalar_subquery()
_THREAD = sa.select(*ChatThreadRow.__table__.columns, _COUNT.label("num_exchanges"))


def _missing(thread_id: str) -> NotFound:
    return NotFound(f"no thread '{thread_id}'", remedy="open it first; the list of threads shows those there are")
