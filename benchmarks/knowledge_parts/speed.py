"""A whole search over 100,000 texts that have vectors."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg

from benchmarks.knowledge_parts.corpus import PROJECT, distractors
from context_store import Store
from context_store.embedding import default_embedder
from context_store.records import NewRun, Project, SearchFilter, TextKind
from context_store.vocabulary import TEXTS_VERSION
from contracts.enums import RunRole

_TEXTS = 100_000
_EMBEDDED = 2_000  # really; the vectors of the other texts are these with noise
_NOISE = 0.04
_RUNS = 50
_ROUNDS = 200


def measure_search(store: Store, questions: Sequence[str]) -> dict[str, Any]:
    """Fills the store; `search_p95_ms` over all questions, each third one filtered."""
    _fill(store)
    filters = (
        SearchFilter(),
        SearchFilter(kinds=(TextKind.NOTE,)),
        SearchFilter(run_id="run-7", lo=1000),
    )
    store.search.find(questions[0])
    times = []
    for number in range(_ROUNDS):
        question, chosen = questions[number % len(questions)], filters[number % len(filters)]
        began = time.perf_counter()
        hits = store.search.find(f"{question} {number}", chosen)
        times.append(1000 * (time.perf_counter() - began))
        if not any(hit.by_meaning for hit in hits):
            raise AssertionError(f"nothing near '{question}' in {_TEXTS} texts")
    cuts = statistics.quantiles(times, n=100)
    return {
        "search_p95_ms": cuts[94],
        "search_median_ms": cuts[49],
        "search_vectors": store.search.coverage().num_embedded,
    }


def _fill(store: Store) -> None:
    store.projects.put(Project(id=PROJECT, path="/written"))
    for number in range(_RUNS):
        run = NewRun(id=f"run-{number}", project_id=PROJECT, name="r", role=RunRole.TRAINING, folder="/r")
        store.runs.create(run)
    texts = distractors(_EMBEDDED)
    with psycopg.connect(store.url) as connection, connection.cursor() as cursor:
        columns = "(run_id, segment, step, kind, title, detail, at)"
        with cursor.copy(f"COPY timeline_event {columns} FROM STDIN") as copy:
            for number in range(_TEXTS):
                kind, title, body = texts[number % len(texts)]
                detail = f'{{"text":"number {number}"}}'
                title = f"{title} ({number}) {body[:60]}".replace("\n", " ")[:190]
                copy.write_row((f"run-{number % _RUNS}", 0, number, kind.value, title, detail, "2026-11-30"))
    _give_vectors(store, [f"{title} {body[:60]}" for _, title, body in texts])


def _give_vectors(store: Store, texts: Sequence[str]) -> None:
    """In bulk, as after a restore: the index is built over all of them."""
    embedder = default_embedder()
    base = embedder.embed(texts)
    rng = np.random.default_rng(0)
    with psycopg.connect(store.url) as connection, connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '768MB'")
        cursor.execute("DROP INDEX ix_search_text_embedding")
        cursor.execute("CREATE TEMP TABLE filled (id BIGINT, vector vector(384))")
        ids = [row[0] for row in cursor.execute("SELECT id FROM search_text ORDER BY id").fetchall()]
        with cursor.copy("COPY filled FROM STDIN") as copy:
            for number, id_ in enumerate(ids):
                vector = base[number % len(base)] + _NOISE * rng.standard_normal(base.shape[1])
                text = ",".join(format(value, ".5g") for value in vector / np.linalg.norm(vector))
                copy.write_row((id_, f"[{text}]"))
        cursor.execute(
            "UPDATE search_text s SET embedder = %s, embedding = f.vector FROM filled f WHERE f.id = s.id",
            [f"{embedder.name}, texts {TEXTS_VERSION}"],
        )
        cursor.execute("CREATE INDEX ix_search_text_embedding ON search_text USING hnsw (embedding vector_cosine_ops)")
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE search_text")
