"""Which start of a run each stored segment is, so that no other start is poured into it, whatever order files come in.

A note on the timeline of each imported segment says where it came from, and in `start` which start it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from context_store.importers.items import FoundSegment
from context_store.models import TimelineRow
from contracts.enums import TimelineKind
from contracts.errors import UserInputError

_REMEDY = (
    "import the folder that holds all starts of the run; if a later one came in first, import it into a project of its"
    " own (--project NAME)"
)


class Starts:
    """The stored starts of one run."""

    def __init__(self, connection: sa.Connection, run_id: str) -> None:
        query = (
            sa.select(TimelineRow.segment, TimelineRow.detail)
            .where(TimelineRow.run_id == run_id, TimelineRow.kind == TimelineKind.NOTE)
            .order_by(TimelineRow.id)
        )
        rows = connection.execute(query).all()
        self._stored = {row.segment: row.detail for row in rows if _is_ours(row.detail) and row.detail["start"]}
        self._refusal: UserInputError | None = None

    def check(self, segment: FoundSegment, origin: str) -> None:
        """Raises UserInputError for a start that is not the stored one of its number, and for those that follow it;
        also for a damaged copy of a stored one.
        """
        if self._refusal is not None:
            raise self._refusal
        stored = self._stored.get(segment.number)
        if stored is None or not segment.start:
            return
        if stored["start"] != mark(segment):
            what = f"{origin} is not start {segment.number + 1} of the run, as it would be here: the store has"
            self._refusal = UserInputError(f"{what} {stored['origin']} there; left out", remedy=_REMEDY)
            raise self._refusal
        if segment.is_damaged and _is_copy(stored, origin):
            raise UserInputError(
                f"{origin} is damaged, and a copy of {stored['origin']}, which is stored; left out",
                remedy="import the original; move it away if the copy is to take its place",
            )


def _is_ours(detail: Mapping[str, Any]) -> bool:
    return detail.keys() >= {"format", "origin", "start"}


def mark(segment: FoundSegment) -> str:
    """Its `start` as the note on the timeline has it; "" without one."""
    digest = hashlib.sha256(segment.start.encode("utf-8", "backslashreplace")).hexdigest()
    return digest[:16] if segment.start else ""


def _is_copy(stored: Mapping[str, Any], origin: str) -> bool:
    """The stored one still lies elsewhere: it was not moved here."""
    there = Path(stored["origin"])
    return there.exists() and Path(origin).exists() and not there.samefile(origin)


def add_original_names(connection: sa.Connection, run_id: str, names: Mapping[str, str]) -> None:
    """Into the notes of the run's segments: name of the store -> that of the source."""
    query = sa.select(TimelineRow.id, TimelineRow.detail).where(
        TimelineRow.run_id == run_id, TimelineRow.kind == TimelineKind.NOTE
    )
    for row in connection.execute(query).all():
        known = row.detail.get("original_names", {})
        if _is_ours(row.detail) and names.items() - known.items():
            detail = row.detail | {"original_names": {**known, **names}}
            connection.execute(sa.update(TimelineRow).where(TimelineRow.id == row.id).values(detail=detail))
