"""The written questions of `benchmarks.knowledge` ask after texts that exist, and only some of them are our own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.knowledge_parts.corpus import distractors, load, read_corpus
from benchmarks.knowledge_parts.recall import read_questions
from context_store import Store


def test_questions_and_corpus_fit(store: Store, tmp_path: Path) -> None:
    corpus, questions = read_corpus(), read_questions([])
    ids = Counter(text["id"] for text in corpus)
    assert set(ids.values()) == {1}
    assert {each["answer"] for each in questions} <= ids.keys()
    by_file = Counter(each["from"] for each in questions)
    assert by_file["own"] + by_file["held_out"] == len(questions) >= 40
    assert by_file["held_out"] >= 20
    assert len({title for _, title, _ in distractors(2400)}) >= 2000
    references = load(store, tmp_path, corpus)
    assert references.keys() == ids.keys()
    hits = store.search.find("rotary angles float32", limit=3)
    assert str(hits[0].reference).startswith(references["h-04"])
