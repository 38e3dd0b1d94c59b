"""Which texts share words with a question. SQL over `search_text`, whose words are split like the question's.

A text's score is the sum over shared words of ln(1 + texts / texts with that word), less for long texts; a word counts
once however often it occurs (in short technical texts repetition says little).

Which texts are looked at follows from how frequent the words are, as ANALYZE found: all that have one of the rarest
words, and those that have several of the others together. So the cost is bounded, whatever the words are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from context_store.database import driver
from context_store.search_filters import Where

_MAX_WORDS = 16
_MANY_TEXTS = 1000  # about so many are looked at for the rare words, and as many for the others together
_MAX_TEXTS = 2000  # where the frequencies say too little, or all words are frequent


@dataclass(frozen=True, kw_only=True)
class WordMatch:
    id: int
    score: float


@dataclass(frozen=True, kw_only=True)
class _Word:
    """`share`: of all texts, how many have it; 0 for a word too rare to be known."""

    text: str
    share: float


def match_words(
    connection: sa.Connection, text: str, where: Where, limit: int, least_share: float = 0.0
) -> list[WordMatch]:
    """Best first, ties to the newest; none for a text without a word that says anything.

    `least_share`: how much of what all words of the question are worth a text has to share.
    """
    raw = driver(connection)
    rows = raw.execute(_ASKED, {"text": text}).fetchall()
    if not rows:
        return []
    num_texts = float(rows[0][2])
    words = [_Word(text=word, share=share) for word, share, _ in rows]
    conditions, given = where
    values = {**given, "limit": limit, "share": least_share, "most": _MAX_TEXTS, "num_texts": num_texts}
    values |= {"query": _candidates(words, num_texts), "words": [each.text for each in words[:_MAX_WORDS]]}
    values |= {"shares": [each.share for each in words[:_MAX_WORDS]]}
    # planned for these very words: a plan for any words would not know how few texts they leave
    found = raw.execute(_MATCH.format(conditions=conditions), values, prepare=False).fetchall()
    return [WordMatch(id=row[0], score=float(row[1])) for row in found]


def _candidates(words: Sequence[_Word], num_texts: float) -> str:
    """A tsquery for the texts that are looked at. `words`: the rarest first.

    Frequent words are left out beside rare ones when even together they say little.
    """
    rare: list[str] = []
    seen = 0.0
    for word in words[:_MAX_WORDS]:
        seen += word.share * num_texts
        if seen > _MANY_TEXTS:
            break
        rare.append(_quoted(word.text))
    together: list[str] = []
    expected = num_texts
    for word in words[len(rare) : _MAX_WORDS]:
        if together and expected <= _MANY_TEXTS:
            break
        expected *= word.share
        together.append(_quoted(word.text))
    if together and (expected <= _MANY_TEXTS or not rare):
        return " | ".join([*rare, f"({' & '.join(together)})"])
    return " | ".join(rare)


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


# `seen`: how frequent the frequent words are, as ANALYZE found; other words are rare.
_ASKED = """
    WITH size AS (
        SELECT greatest(reltuples, 1000)::float8 AS n FROM pg_class WHERE oid = 'search_text'::regclass
    ), seen AS (
        SELECT e.word, e.share FROM pg_stats s,
            unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) AS e (word, share)
        WHERE s.schemaname = 'public' AND s.tablename = 'search_text' AND s.attname = 'words' AND e.word IS NOT NULL
    )
    SELECT w.word, coalesce(seen.share, 0)::float8 AS share, size.n
    FROM size, unnest(tsvector_to_array(to_tsvector('english'::regconfig, search_words(%(text)s)))) AS w (word)
    LEFT JOIN seen ON seen.word = w.word ORDER BY share, w.word
"""
# A rare word's frequency is counted in what was found. The conditions are ours.
_MATCH = """
    WITH asked AS MATERIALIZED (
        SELECT a.word, a.share, quote_literal(a.word)::tsquery AS query
        FROM unnest(%(words)s::text[], %(shares)s::float8[]) AS a (word, share)
    ), candidate AS MATERIALIZED (
        SELECT s.id, s.num_words, s.words FROM search_text s
        WHERE s.words @@ %(query)s::tsquery AND {conditions} LIMIT %(most)s
    ), hit AS MATERIALIZED (
        SELECT asked.word, candidate.id, candidate.num_words FROM candidate JOIN asked ON candidate.words @@ asked.query
    ), worth AS (
        SELECT asked.word, ln(1 + %(num_texts)s / greatest(asked.share * %(num_texts)s, count(hit.id), 1)) AS idf
        FROM asked LEFT JOIN hit USING (word) GROUP BY asked.word, asked.share
    ), whole AS (
        SELECT sum(idf) AS idf FROM worth
    )
    SELECT hit.id, sum(worth.idf) / (0.8 + 0.2 * least(max(hit.num_words) / 40.0, 4)) AS score
    FROM hit JOIN worth USING (word), whole GROUP BY hit.id, whole.idf
    HAVING sum(worth.idf) >= %(share)s * whole.idf ORDER BY score DESC, hit.id DESC LIMIT %(limit)s
"""
