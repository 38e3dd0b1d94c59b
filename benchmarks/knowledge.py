"""The memory: how fast it joins, explains and finds; whether it finds the right thing; whether it saves probes.

`python -m benchmarks.knowledge --json`. Parts can be chosen by --only. Questions are over
`knowledge_questions/corpus.jsonl`: `own.json`, and `held_out.json` by somebody who had not seen the ranking.
`--questions FILE` adds others: `tried.json` are those on which the ranking was chosen; they say nothing about new ones.

join_s            one diagnosis over 130 commits x 106 configuration fields x 48 layers: everything that could explain
                  the anomaly, ranked
lineage_p95_ms    "why do we believe this" (store.why.of) in a ledger of 1,000,000 rows
search_p95_ms     a whole search, the question's embedding included, over 100,000 texts with vectors; some filtered
recall_at_5       questions whose text is among the first five, all texts really embedded; also by file, because the
                  ranking was tried on the own ones
probes_first, probes_second, probes_second_empty   re-runs of a case, of a second case of it, and of that second case
                  with an empty memory. Shows R801-2.6.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.knowledge_parts.joins import measure_join
from benchmarks.knowledge_parts.ledger import measure_lineage
from benchmarks.knowledge_parts.probes import measure_probes
from benchmarks.knowledge_parts.recall import measure_recall, read_questions
from benchmarks.knowledge_parts.speed import measure_search
from context_store import EmbeddedPostgres, Store, migrate, open_store
from context_store.embedding import default_embedder

PARTS = ("recall", "search", "join", "lineage", "probes")


@contextmanager
def fresh_store() -> Iterator[tuple[Store, Path]]:
    """A store of its own on a durable server of its own, and a folder that goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    server = EmbeddedPostgres(folder / "postgres")
    try:
        url = server.start()
        migrate(url)
        with open_store(url, embedder=default_embedder()) as store:
            yield store, folder
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--questions", nargs="+", type=Path, default=[], help="JSON lists of {question, answer}")
    options = parser.parse_args()
    questions = read_questions(options.questions)
    parts: dict[str, Callable[[Store, Path], dict[str, Any]]] = {
        "recall": lambda store, folder: measure_recall(store, folder, questions),
        "search": lambda store, folder: measure_search(store, [each["question"] for each in questions]),
        "join": measure_join,
        "lineage": lambda store, folder: measure_lineage(store),
        "probes": measure_probes,
    }
    results: dict[str, Any] = {}
    for name in options.only:
        with fresh_store() as (store, folder):
            results |= parts[name](store, folder)
        sys.stderr.write(f"{name} done\n")
    text = json.dumps(results) if options.json else json.dumps(results, indent=1)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
