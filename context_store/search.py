"""One search over everything textual: shared words and near meaning, fused by reciprocal rank, with structured filters.

Texts and their words are kept up to date by triggers in the database; vectors by `embed`, only for texts that are new,
changed, or embedded by another embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray

from context_store.database import Database, driver
from context_store.embedding import DIMENSIONS, Embedder
from context_store.lexical import match_words
from context_store.models import SearchTextRow
from context_store.records.search import Coverage, Hit, SearchFilter, TextKind
from context_store.search_filters import Where, conditions_of
from context_store.vocabulary import TEXTS_VERSION, embedded_text, meanings, plain
from contracts.evidence import EvidenceRef

_BY_WORDS, _BY_MEANING = 60, 120  # how long each list is
_NEIGHBOURS = 10
_RANK_CONSTANT = 60  # Cormack, Clarke and Buettcher 2009, reciprocal rank fusion
_LEAST_SHARE = 0.4  # of what the words of a question are worth; a text that shares less shares a word by chance
_MAX_QUESTION = 2000
_MAX_EMBEDDED_CHARACTERS = 2000  # more than the 256 tokens that a small model reads
_BATCH = 128
_FEW_ROWS = 5000
EVERYTHING = SearchFilter()
_EVERYTHING: Where = ("TRUE", {})


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
        with ThreadPoolExecutor(max_workers=1) as beside, self._database.begin() as connection:
            where = conditions_of(connection, chosen)
            embedded = beside.submit(self._embedder.embed, [embedded_text(text)])  # while the database looks for words
            by_words = {
                match.id: rank
                for rank, match in enumerate(match_words(connection, text, where, _BY_WORDS, _LEAST_SHARE), 1)
            }
            vector = embedded.result()[0]
            near = _nearest(connection, vector, self._vectors, where) if vector.any() else _NOTHING
            by_meaning = {near.ids[place]: rank for rank, place in enumerate(_out_of_crowds(near), 1)}
            best = _fused([by_words, by_meaning])[:limit]
            rows = _rows(connection, [id_ for id_, _ in best])
        similarity = near.cosines
        return [
            _hit(rows[id_], score, by_words.get(id_), by_meaning.get(id_), similarity.get(id_)) for id_, score in best
        ]

    def nearest(self, text: str, chosen: SearchFilter = EVERYTHING, limit: int = 10) -> list[Hit]:
        """By meaning only, nearest first; embeds what is asked, not what is stored."""
        vector = self._embedder.embed([embedded_text(text)])[0]
        with self._database.begin() as connection:
            where = conditions_of(connection, chosen)
            near = _nearest(connection, vector, self._vectors, where) if vector.any() else _NOTHING
            ids = near.ids[:limit]
            rows = _rows(connection, ids)
        return [_hit(rows[id_], 1.0 / rank, None, rank, near.cosines[id_]) for rank, id_ in enumerate(ids, 1)]

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


@dataclass(frozen=True, kw_only=True)
class _Near:
    """The texts nearest to a question, nearest first; `vectors` [texts, DIMENSIONS] in the order of `ids`."""

    ids: list[int]
    cosines: Mapping[int, float]
    vectors: NDArray[np.float32]


_NOTHING = _Near(ids=[], cosines={}, vectors=np.zeros((0, DIMENSIONS), np.float32))


def _nearest(connection: sa.Connection, vector: NDArray[np.float32], embedder: str, where: Where) -> _Near:
    """Few rows that pass the filter are all compared; of many, the index is scanned until enough pass."""
    conditions, given = where
    filtered = where != _EVERYTHING
    values = {**given, "vector": _text(vector), "embedder": embedder, "limit": _BY_MEANING}
    every = _NEAREST_OF_ALL.format(conditions=conditions)
    with driver(connection).cursor(binary=True) as cursor:
        if filtered and _about(cursor, conditions, values) <= _FEW_ROWS:
            return _near(cursor.execute(every, values, prepare=False).fetchall())
        cursor.execute(_SCAN)
        found = cursor.execute(_NEAREST.format(conditions=conditions), values, prepare=False).fetchall()
        if filtered and len(found) < _BY_MEANING:  # fewer pass than the statistics say: the scan gave up
            found = cursor.execute(every, values, prepare=False).fetchall()
    return _near(found)


def _near(rows: Sequence[tuple[int, float, bytes]]) -> _Near:
    """Rows of (id, distance, vector as pgvector sends it: two int16, then big-endian float32)."""
    if not rows:
        return _NOTHING
    vectors = np.stack([np.frombuffer(row[2], ">f4", offset=4) for row in rows]).astype(np.float32)
    return _Near(ids=[row[0] for row in rows], cosines={row[0]: 1.0 - row[1] for row in rows}, vectors=vectors)


def _out_of_crowds(near: _Near) -> list[int]:
    """Places in `near`, best first: by cosine to the question, less half the mean cosine to the nearest neighbours.

    Of a hundred texts that differ by a number, all are about as near to the question; what stands alone was meant more
    often. Local scaling (Conneau et al. 2018, Word translation without parallel data, 3.2), among what was found.
    """
    if len(near.ids) < 2:
        return list(range(len(near.ids)))
    alike = near.vectors @ near.vectors.T
    np.fill_diagonal(alike, -1.0)
    num_neighbours = min(_NEIGHBOURS, len(near.ids) - 1)
    crowded = np.sort(alike, axis=1)[:, -num_neighbours:].mean(axis=1)
    cosines = np.array([near.cosines[id_] for id_ in near.ids])
    return [int(place) for place in np.argsort(0.5 * crowded - cosines, kind="stable")]


def _about(cursor: psycopg.Cursor[tuple[Any, ...]], conditions: str, values: Mapping[str, Any]) -> int:
    """How many rows pass, as the planner estimates."""
    row = cursor.execute(_PLAN.format(conditions=conditions), values, prepare=False).fetchone()
    assert row is not None
    return int(row[0][0]["Plan"]["Plan Rows"])


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
    SELECT s.id, s.embedding <=> %(vector)s::vector AS distance, s.embedding FROM search_text s
    WHERE s.embedder = %(embedder)s AND {conditions} ORDER BY s.embedding <=> %(vector)s::vector LIMIT %(limit)s
"""
_PLAN = "EXPLAIN (FORMAT JSON) SELECT FROM search_text s WHERE s.embedder = %(embedder)s AND {conditions}"
_NEAREST_OF_ALL = """
    WITH passing AS MATERIALIZED (
        SELECT s.id, s.embedding <=> %(vector)s::vector AS distance FROM search_text s
        WHERE s.embedder = %(embedder)s AND {conditions}
    )
    SELECT passing.id, passing.distance, t.embedding
    FROM (SELECT * FROM passing ORDER BY distance LIMIT %(limit)s) AS passing JOIN search_text t USING (id)
    ORDER BY passing.distance
"""
_SCAN = "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '120', true)"
_WAITING = """
    SELECT id, content_key, title, body FROM search_text
    WHERE embedder IS NULL OR embedder < %(embedder)s OR embedder > %(embedder)s ORDER BY id DESC LIMIT %(n)s
"""
_STORE = "UPDATE search_text SET embedder = %s, embedding = %s::vector WHERE id = %s AND content_key = %s"
