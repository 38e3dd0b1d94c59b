"""Whether evidence names something that is stored: a statement that rests on nothing is refused."""

from __future__ import annotations

from urllib.parse import unquote

import sqlalchemy as sa

from context_store.database import driver
from context_store.records import Evidence
from context_store.why_links import KINDS, title_sql
from contracts.errors import UserInputError


def require_stored(connection: sa.Connection, references: Evidence) -> None:
    """Raises UserInputError that names the references to nothing. Slices of what is stored are not looked at."""
    unknown = [reference for reference in references if reference.kind not in KINDS]
    asked = [reference for reference in references if reference.kind in KINDS]
    if asked:
        kinds = sorted({reference.kind for reference in asked})
        values = {"kinds": [each.kind for each in asked], "ids": [unquote(each.id) for each in asked]}
        rows = driver(connection).execute(_PLACES.format(title=title_sql(kinds)), values)
        unknown += [asked[place - 1] for (place,) in rows]
    if unknown:
        names = ", ".join(map(str, unknown))
        raise UserInputError(
            f"evidence that is not stored: {names}",
            remedy="name what the store has, as `lathe search` and `lathe runs` show it (kind:id#slice); what lies "
            "elsewhere is brought in first: lathe ingest PATH",
        )


_PLACES = """
    SELECT n.place FROM unnest(%(kinds)s::text[], %(ids)s::text[]) WITH ORDINALITY AS n (kind, id, place)
    WHERE {title} IS NULL
"""
