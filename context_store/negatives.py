"""Negative results: what was tried or suspected and did not hold, found again before it is tried again."""

from __future__ import annotations

import builtins
import dataclasses
import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.canonical import content_hash
from context_store.database import Database
from context_store.models import InvestigationRow, NegativeRow, RunRow
from context_store.records import NegativeResult
from contracts.errors import UserInputError


class Negatives:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, negative: NegativeResult) -> NegativeResult:
        """Idempotent by content. Raises UserInputError without evidence or without a reason."""
        if not negative.evidence or not negative.reason.strip():
            raise UserInputError(
                "a negative result needs a reason and evidence for it",
                remedy="say why it failed and name the run, series or hunk that shows it (kind:id#slice)",
            )
        values = {f.name: getattr(negative, f.name) for f in dataclasses.fields(negative) if f.name != "id"}
        key = content_hash(values | {"evidence": [str(reference) for reference in negative.evidence]})
        with self._database.begin() as connection:
            if negative.project_id is None and negative.investigation_id is not None:
                values["project_id"] = _project_of(connection, negative.investigation_id)
            statement = insert(NegativeRow).values(**values, content_key=key, words=_words(negative))
            connection.execute(statement.on_conflict_do_nothing(index_elements=["content_key"]))
            return NegativeResult(**connection.execute(_NEGATIVE.where(NegativeRow.content_key == key)).one()._mapping)

    def search(
        self, text: str, project_id: str | None = None, limit: int = 10
    ) -> builtins.list[tuple[NegativeResult, float]]:
        """Full-text search over all fields; any word may match, more and rarer matches come first."""
        words = _normalise(text).split()
        if not words:
            return []
        question = sa.func.to_tsquery(sa.literal_column("'english'::regconfig"), " | ".join(words))
        score = sa.func.ts_rank(NegativeRow.search, question).label("score")
        query = _NEGATIVE.add_columns(score).where(NegativeRow.search.op("@@")(question))
        if project_id is not None:
            query = query.where(NegativeRow.project_id == project_id)
        with self._database.begin() as connection:
            rows = connection.execute(query.order_by(score.desc(), NegativeRow.id.desc()).limit(limit))
            return [_scored(dict(row._mapping)) for row in rows]

    def list(self, investigation_id: str | None = None) -> builtins.list[NegativeResult]:
        """Oldest first."""
        query = _NEGATIVE.order_by(NegativeRow.id)
        if investigation_id is not None:
            query = query.where(NegativeRow.investigation_id == investigation_id)
        with self._database.begin() as connection:
            return [NegativeResult(**row._mapping) for row in connection.execute(query)]


_HIDDEN = {"content_key", "words", "search"}
_NEGATIVE = sa.select(*(column for column in NegativeRow.__table__.columns if column.key not in _HIDDEN))


def _scored(values: dict[str, Any]) -> tuple[NegativeResult, float]:
    score = float(values.pop("score"))
    return NegativeResult(**values), score


def _words(negative: NegativeResult) -> str:
    """Everything that is searched, in one text."""
    context = " ".join(f"{key} {value}" for key, value in sorted(negative.context.items()))
    parts = [negative.claim, negative.intervention, context, negative.expected, negative.observed]
    return _normalise(" ".join([*parts, negative.reason_class, negative.reason, negative.reopen_if]))


def _normalise(text: str) -> str:
    """Identifiers fall into their words: `moe.balance_coef` becomes `moe balance coef`."""
    return re.sub(r"[\W_]+", " ", text).strip().lower()


def _project_of(connection: sa.Connection, investigation_id: str) -> str | None:
    query = sa.select(RunRow.project_id).join(InvestigationRow, InvestigationRow.run_id == RunRow.id)
    project: str | None = connection.execute(query.where(InvestigationRow.id == investigation_id)).scalar()
    return project
