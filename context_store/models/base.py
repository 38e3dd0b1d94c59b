"""Base class and column types shared by all tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import DeclarativeBase

from context_store.canonical import canonical_json, from_canonical
from contracts.evidence import EvidenceRef


class Base(DeclarativeBase):
    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class UnixTime(sa.types.TypeDecorator[float]):
    """Unix seconds in Python, timestamptz (microseconds) in the database."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value, tz=UTC)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> float | None:
        return None if value is None else value.timestamp()


class Word(sa.types.TypeDecorator[StrEnum]):
    """A member of one of the closed sets of contracts.enums, stored by its value."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, enum: type[StrEnum]) -> None:
        super().__init__()
        self.enum = enum

    def process_bind_param(self, value: StrEnum | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else self.enum(value).value

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> StrEnum | None:
        return None if value is None else self.enum(value)


class EvidenceList(sa.types.TypeDecorator[tuple[EvidenceRef, ...]]):
    """Evidence references as an array of their text form."""

    impl = ARRAY(sa.Text)
    cache_ok = True

    def process_bind_param(self, value: Sequence[EvidenceRef] | None, dialect: sa.Dialect) -> list[str] | None:
        return None if value is None else [str(reference) for reference in value]

    def process_result_value(self, value: list[str] | None, dialect: sa.Dialect) -> tuple[EvidenceRef, ...] | None:
        return None if value is None else tuple(EvidenceRef.parse(text) for text in value)


class Words(sa.types.TypeDecorator[tuple[str, ...]]):
    """A tuple of strings."""

    impl = ARRAY(sa.Text)
    cache_ok = True

    def process_bind_param(self, value: Sequence[str] | None, dialect: sa.Dialect) -> list[str] | None:
        return None if value is None else list(value)

    def process_result_value(self, value: list[str] | None, dialect: sa.Dialect) -> tuple[str, ...] | None:
        return None if value is None else tuple(value)


class CanonicalJson(sa.types.TypeDecorator[Any]):
    """A JSON value as its canonical text: what is hashed is what is stored, and NaN and infinities survive."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str:
        return canonical_json(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        return None if value is None else from_canonical(value)
