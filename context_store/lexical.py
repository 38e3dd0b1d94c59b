"""Which texts share the rarest words of a question. SQL over `search_text`, whose words are split like the question's.

A text's score is the sum over shared words of ln(1 + texts / texts with that word), less for long texts; a word counts
once however often it occurs (in short technical texts repetition says little).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from context_store.database import driver
from context_store.records.search import SearchFilter

_MAX_WORDS = 16
_MAX_TEXTS_A_WORD = 500  # a word of more texts than that tells little, and costs much


@dataclass(frozen=True, kw_only=True)
class WordMatch:
    id: int
    score: float


def match_words(
    connection: sa.Connection, text: str, chosen: SearchFilter, limit: int, least_share: float = 0.0
) -> list[WordMatch]:
    """Best first, ties to the newest; none for a text without a word that says anything.

    `least_share`: how much of what all words of the question are worth a text has to share.
    """
    conditions, values = conditions_of(chosen)
    values |= {"text": text, "limit": limit, "share": least_share, "words": _MAX_WORDS, "texts": _MAX_TEXTS_A_WORD}
    rows = driver(connection).execute(_MATCH.format(conditions=conditions), values).fetchall()
    return [WordMatch(id=row[0], score=float(row[1])) for row in rows]


def conditions_of(chosen: SearchFilter) -> tuple[str, dict[str, Any]]:
    """SQL over `s` that holds for what is chosen, and its parameters."""
    given: Mapping[str, Any] = {
        "s.kind = ANY(%(kinds)s)": ("kinds", [str(kind) for kind in chosen.kinds] or None),
        "s.project_id = %(project)s": ("project", chosen.project_id),
        "s.run_id = %(run)s": ("run", chosen.run_id),
        "s.layers @> ARRAY[%(layer)s::integer]": ("layer", chosen.layer),
        "EXISTS (SELECT FROM unnest(s.fields) f WHERE f = %(field)s OR starts_with(f, %(field)s || '.'))": (
            "field",
            chosen.field,
        ),
        "s.step_hi >= %(lo)s": ("lo", chosen.lo),
        "s.step_lo <= %(hi)s": ("hi", chosen.hi),
        "s.at >= to_timestamp(%(since)s)": ("since", chosen.since),
        "s.at <= to_timestamp(%(until)s)": ("until", chosen.until),
        "s.outcome = %(outcome)s": ("outcome", chosen.outcome),
    }
    used = {condition: pair for condition, pair in given.items() if pair[1] is not None}
    return " AND ".join(["TRUE", *used]), dict(used.values())


# `seen`: how frequent the frequent words are, as ANALYZE found; other words are rare. The conditions are ours.
_MATCH = """
    WITH size AS (
        SELECT greatest(reltuples, 1000) AS n FROM pg_class WHERE oid = 'search_text'::regclass
    ), seen AS (
        SELECT e.word, e.share FROM pg_stats s,
            unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) AS e (word, share)
        WHERE s.schemaname = 'public' AND s.tablename = 'search_text' AND s.attname = 'words' AND e.word IS NOT NULL
    ), asked AS (
        SELECT w.word, coalesce(seen.share, 0) * size.n AS texts,
            row_number() OVER (ORDER BY coalesce(seen.share, 0), w.word) AS place
        FROM size, unnest(tsvector_to_array(to_tsvector('english'::regconfig, search_words(%(text)s)))) AS w (word)
        LEFT JOIN seen ON seen.word = w.word
    ), hit AS MATERIALIZED (
        SELECT asked.word, found.id, found.num_words FROM asked, LATERAL (
            SELECT s.id, s.num_words FROM search_text s
            WHERE s.words @@ quote_literal(asked.word)::tsquery AND {conditions} LIMIT %(texts)s
        ) AS found WHERE asked.place <= %(words)s AND (asked.place <= 2 OR asked.texts <= %(texts)s)
    ), worth AS (
        SELECT word, ln(1 + size.n / count(*)) AS idf FROM hit, size GROUP BY word, size.n
    ), whole AS (
        SELECT sum(coalesce(worth.idf, ln(1 + size.n / greatest(asked.texts, 1)))) AS idf
        FROM size, asked LEFT JOIN worth USING (word)
    )
    SELECT hit.id, sum(worth.idf) / (0.8 + 0.2 * least(max(hit.num_words) / 40.0, 4)) AS score
    FROM hit JOIN worth USING (word), whole GROUP BY hit.id, whole.idf
    HAVING sum(worth.idf) >= %(share)s * whole.idf ORDER BY score DESC, hit.id DESC LIMIT %(limit)s
"""
