"""The series dictionary: names to ids, and the sets of series that are logged together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from context_store.database import driver
from context_store.frames import SeriesSet
from contracts.errors import UserInputError
from contracts.names import SeriesName

MAX_NAME_CHARACTERS = 500
Names = tuple[str, ...]
_KEPT_NAMES = 2_000_000


def known_ids(connection: sa.Connection, run_id: str, names: Sequence[str]) -> dict[str, int]:
    """Ids of those names that the run has."""
    query = "SELECT name, id FROM series WHERE run_id = %s AND name = ANY(%s)"
    return dict(driver(connection).execute(query, [run_id, list(names)], binary=True).fetchall())


def series_ids(connection: sa.Connection, run_id: str, names: Iterable[str]) -> dict[str, int]:
    """Ids of these names of a locked run, new ones made in the order of their names. Raises UserInputError."""
    wanted = set(names)
    _check(wanted)
    ids = known_ids(connection, run_id, list(wanted))
    fresh = sorted(wanted - ids.keys())
    if fresh:
        parsed = [SeriesName.parse(name) for name in fresh]
        columns: dict[str, list[Any]] = {
            field.name: [getattr(one, field.name) for one in parsed] for field in dataclasses.fields(SeriesName)
        }
        rows = driver(connection).execute(_INSERT, columns | {"run": run_id, "name": fresh}).fetchall()
        ids |= {str(name): int(number) for name, number in rows}
    return ids


class SeriesSets:
    """Remembers which series names stand for, between transactions that were committed. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Names], SeriesSet] = {}
        self._num_names = 0

    def resolve(
        self, connection: sa.Connection, run_id: str, number: int, logged: Iterable[Names]
    ) -> dict[Names, SeriesSet]:
        """Sets of a locked run. Give them to `keep` once the transaction is committed."""
        different = set(logged)
        found = {names: kept for names in different if (kept := self._kept.get((number, names))) is not None}
        missing = different - found.keys()
        if missing:
            ids = series_ids(connection, run_id, (name for names in missing for name in names))
            found |= {names: SeriesSet.of([ids[name] for name in names]) for names in missing}
        return found

    def keep(self, number: int, sets: dict[Names, SeriesSet]) -> None:
        if self._num_names > _KEPT_NAMES:
            self._kept, self._num_names = {}, 0
        for names, found in sets.items():
            if (number, names) not in self._kept:
                self._kept[number, names] = found
                self._num_names += len(names)


def is_name(name: str) -> bool:
    """1 to MAX_NAME_CHARACTERS characters that Postgres can hold: no NUL, no half of a surrogate pair."""
    return (
        0 < len(name) <= MAX_NAME_CHARACTERS and "\0" not in name and not any("\ud800" <= c <= "\udfff" for c in name)
    )


def _check(names: Iterable[str]) -> None:
    for name in names:
        if not is_name(name):
            raise UserInputError(
                f"{name!r:.80} is no name of a series",
                remedy=f"use 1 to {MAX_NAME_CHARACTERS} characters of Unicode without NUL",
            )


_INSERT = """
    INSERT INTO series (run_id, name, statistic, module, layer, expert, rank)
    SELECT %(run)s, given.* FROM unnest(%(name)s::text[], %(statistic)s::text[], %(module)s::text[],
        %(layer)s::int[], %(expert)s::int[], %(rank)s::int[]) AS given
    RETURNING name, id
"""
