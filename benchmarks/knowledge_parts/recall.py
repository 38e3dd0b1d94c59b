"""Is what was asked for among the first five?"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.knowledge_parts.corpus import FOLDER, PROJECT, RUN, distractors, load, read_corpus
from context_store import Store
from context_store.records import TimelineEvent

_FIRST = 5
_DISTRACTORS = 2400


def read_questions(paths: Sequence[Path]) -> list[Mapping[str, str]]:
    """The ranking's own, the held-out ones, and those of other files: JSON lists of {"question", "answer": id in
    corpus.jsonl}; with the file's name as "from"."""
    files = (FOLDER / "own.json", FOLDER / "held_out.json", *paths)
    return [{**each, "from": path.stem} for path in files for each in json.loads(path.read_text())]


def measure_recall(store: Store, folder: Path, questions: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Fills the store. `recall_at_5` over all questions, `recall_at_5_by_file` apart; `missed` with the rank, None
    beyond 60 or not at all."""
    answers = load(store, folder, read_corpus())
    for number, (kind, title, body) in enumerate(distractors(_DISTRACTORS)):
        store.timeline.add(
            TimelineEvent(run_id=RUN, segment=0, step=number, kind=kind, title=title, detail={"text": body})
        )
    began = time.perf_counter()
    embedded = store.search.embed()
    embed_s = time.perf_counter() - began
    ranks = [_rank(store, each["question"], answers[each["answer"]]) for each in questions]
    right = [rank is not None and rank <= _FIRST for rank in ranks]
    missed = [{**each, "rank": rank} for each, rank, ok in zip(questions, ranks, right, strict=True) if not ok]
    return {
        "recall_at_5": sum(right) / len(right),
        "recall_at_5_by_file": _by_file(questions, right),
        "num_questions": len(right),
        "num_texts": store.search.coverage().num_texts,
        "embedder": store.search.coverage().embedder,
        "embedded_per_s": embedded / embed_s,
        "mean_reciprocal_rank": sum(1.0 / rank for rank in ranks if rank) / len(ranks),
        "missed": missed,
        "project": PROJECT,
    }


def _by_file(questions: Sequence[Mapping[str, str]], right: Sequence[bool]) -> dict[str, str]:
    """k/N for each file."""
    files = dict.fromkeys(each["from"] for each in questions)
    found = {name: [ok for each, ok in zip(questions, right, strict=True) if each["from"] == name] for name in files}
    return {name: f"{sum(oks)}/{len(oks)}" for name, oks in found.items()}


def _rank(store: Store, question: str, reference: str) -> int | None:
    for rank, hit in enumerate(store.search.find(question, limit=60), 1):
        found = str(hit.reference)
        if found == reference or (reference.endswith("/") and found.startswith(reference)):
            return rank
    return None
