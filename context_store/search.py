"""One search over everything textual: shared words and near meaning, fused by reciprocal rank, with structured filters.

Texts and their words are kept up to date by triggers in the database; vectors by `embed`, only for texts that are new,
changed, or embedded by another embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store.database import Database, driver
from context_store.embedding import Embedder
from context_store.lexical import conditions_of, match_words
from context_store.models import SearchTextRow
from context_store.records.search import Coverage, Hit, SearchFilter, TextKind
from context_store.vocabulary import TEXTS_VERSION, embedded_text, meanings, plain
from contracts.evidence import EvidenceRef

_CANDIDATES = 60  # of each list
_RANK_CONSTANT = 60  # Cormack, Clarke and Buettcher 2009, reciprocal rank fusion
_LEAST_SHARE = 0.4  # of what the words of a question are worth; a text that shares less shares a word by chance
_MAX_QUESTION = 2000
_MAX_EMBEDDED_CHARACTERS = 2000  # more than the 256 tokens that a small model reads
_BATCH = 128
_FEW_ROWS = 5000
EVERYTHING = SearchFilter()


class Search:
    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder
        self._vectors = f"{embedder.name}, texts {TEXTS_VERSION}"

    def find(self, text: str, chosen: SearchFilter = EVERYTHING, limit: int = 10) -> list[Hit]:
        """Best first. A text without a vector yet is found by its words only. pgvector 0.8 or newer."""
        text = text[:_MAX_QUESTION].replace("\0", " ")
        if not text.strip():
            return []
        vector = self._embedder.embed([embedded_text(text)])[0]
        with self._database.begin() as connection:
            by_words = {
                match.id: rank
                for rank, match in enumerate(match_words(connection, text, chosen, _CANDIDATES, _LEAST_SHARE), 1)
            }
            near = _nearest(connection, vector, self._vectors, chosen) if vector.any() else []
            by_meaning = {id_: rank for rank, (id_, _) in enumerate(near, 1)}
            best = _fused([by_words, by_meaning])[:limit]
            rows = _rows(connection, [id_ for id_, _ in best])
        similarity = dict(near)
        return [
            _hit(rows[id_], score, by_words.get(id_), by_meaning.get(id_), similarity.get(id_)) for id_, score in best
        ]

    def nearest(self, text: str, chosen: SearchFilter = EVERYTHING, limit: int = 10) -> list[Hit]:
        """By meaning only, nearest first; embeds what is asked, not what is stored."""
        vector = self._embedder.embed([embedded_text(text)])[0]
        with self._database.begin() as connection:
            near = _nearest(connection, vector, self._vectors, chosen)[:limit] if vector.any() else []
            rows = _rows(connection, [id_ for id_, _ in near])
        return [_hit(rows[id_], 1.0 / rank, None, rank, cosine) for rank, (id_, cosine) in enumerate(near, 1)]

    def embed(self, limit: int | None = None, tell: Callable[[int], None] = lambda done: None) -> int:
        """Give at most `limit` texts (None: all) the vector they lack, newest first; returns how many.

        A text that changes meanwhile keeps lacking it and is taken at the next call.
        """
        done = 0
        while limit is None or done < limit:
            size = _BATCH if limit is None else min(_BATCH, limit - done)
            with self._database.begin() as connection:
                waiting = driver(connection).execute(_WAITING, {"embedder": self._vectors, "n": size}).fetchall()
            if not waiting:
                break
            vectors = self._embedder.embed([_stored(row[2], row[3]) for row in waiting])
            with self._database.begin() as connection, driver(connection).cursor() as cursor:
                values = zip(waiting, vectors, strict=True)
                cursor.executemany(_STORE, [(self._vectors, _text(v), row[0], row[1]) for row, v in values])
            done += len(waiting)
            tell(done)
        return done

    def coverage(self) -> Coverage:
        mine = SearchTextRow.embedder == self._vectors
        query = sa.select(sa.func.count(), sa.func.count().filter(mine)).select_from(SearchTextRow)
        with self._database.begin() as connection:
            total, embedded = connection.execute(query).one()
        return Coverage(embedder=self._vectors, num_texts=total, num_embedded=embedded)


def _nearest(
    connection: sa.Connection, vector: NDArray[np.float32], embedder: str, chosen: SearchFilter
) -> list[tuple[int, float]]:
    """(id, cosine), nearest first.

    Few rows that pass the filter are all compared; of many, the index is scanned until enough pass.
    """
    conditions, values = conditions_of(chosen)
    values |= {"vector": _text(vector), "embedder": embedder, "limit": _CANDIDATES}
    raw = driver(connection)
    if chosen != EVERYTHING:
        found = raw.execute(_FEW.format(conditions=conditions), {**values, "few": _FEW_ROWS}).fetchall()
        if len(found) <= _FEW_ROWS:
            values["ids"] = [row[0] for row in found]
            return [(row[0], 1.0 - row[1]) for row in raw.execute(_NEAREST_OF, values)]
    raw.execute(
        "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '80', true)"
    )
    return [(row[0], 1.0 - row[1]) for row in raw.execute(_NEAREST.format(conditions=conditions), values)]


def _fused(lists: Sequence[Mapping[int, int]]) -> list[tuple[int, float]]:
    """(id, sum over the lists of 1 / (60 + rank)), best first, ties to the newest."""
    ids = set().union(*lists)
    scores = {id_: sum(1.0 / (_RANK_CONSTANT + ranks[id_]) for ranks in lists if id_ in ranks) for id_ in ids}
    return sorted(scores.items(), key=lambda pair: (-pair[1], -pair[0]))


def _rows(connection: sa.Connection, ids: Sequence[int]) -> dict[int, sa.RowMapping]:
    table = SearchTextRow.__table__.c
    columns = (
        "id",
        "kind",
        "reference",
        "project_id",
        "run_id",
        "step_lo",
        "step_hi",
        "at",
        "outcome",
        "title",
        "body",
    )
    query = sa.select(*(table[name] for name in columns)).where(table.id.in_(ids))
    return {row.id: row._mapping for row in connection.execute(query)}


def _hit(
    row: sa.RowMapping, score: float, by_words: int | None, by_meaning: int | None, similarity: float | None
) -> Hit:
    values: dict[str, Any] = {name: row[name] for name in ("title", "body", "project_id", "run_id", "at", "outcome")}
    return Hit(
        kind=TextKind(row["kind"]),
        reference=EvidenceRef.parse(row["reference"]),
        score=score,
        by_words=by_words,
        by_meaning=by_meaning,
        similarity=similarity,
        steps=None if row["step_lo"] is None else (row["step_lo"], row["step_hi"]),
        **values,
    )


def _stored(title: str, body: str) -> str:
    """As `embedded_text`, with the other words for the title only: a body speaks of too much."""
    text, others = plain(f"{title}. {body}"[:_MAX_EMBEDDED_CHARACTERS]), meanings(title)
    return f"{text}. {others}" if others else text


def _text(vector: NDArray[np.float32]) -> str:
    return "[" + ",".join(format(value, ".6g") for value in vector.tolist()) + "]"


_NEAREST = """
    SELECT s.id, s.embedding <=> %(vector)s::vector AS distance FROM search_text s
    WHERE s.embedder = %(embedder)s AND {conditions} ORDER BY s.embedding <=> %(vector)s::vector LIMIT %(limit)s
"""
_FEW = """
    SELECT s.id FROM search_text s WHERE s.embedder = %(embedder)s AND {conditions} LIMIT %(few)s + 1
"""
_NEAREST_OF = """
    WITH few AS MATERIALIZED (SELECT id, embedding FROM search_text WHERE id = ANY(%(ids)s))
    SELECT id, embedding <=> %(vector)s::vector AS distance FROM few ORDER BY distance LIMIT %(limit)s
"""
_WAITING = """
    SELECT id, content_key, title, body FROM search_text
    WHERE embedder IS NULL OR embedder < %(embedder)s OR embedder > %(embedder)s ORDER BY id DESC LIMIT %(n)s
"""
_STORE = "UPDATE search_text SET embedder = %s, embedding = %s::vector WHERE id = %s AND content_key = %s"
