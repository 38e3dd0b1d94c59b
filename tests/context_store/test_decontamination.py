"""8-gram overlap of corpora with benchmarks. Shows R801-8.9: planted leaks are found, one report a benchmark."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from context_store import Store
from context_store.corpora import Corpus
from context_store.overlaps import Overlaps, words
from contracts.errors import LogFormatError, NotFound, UserInputError

ITEMS: list[dict[str, Any]] = [
    {"question": "Which river flows through the old town of Heidelberg in Germany?", "answer": "Neckar"},
    {"question": "How many strings does a standard concert guitar have, and how are they tuned?", "answer": "six"},
    {"question": "Who wrote it?", "choices": ["Ada", "Grace"]},
]
CLEAN = "The river that runs by the castle is wide. Guitars come with six strings, mostly. Who wrote this?"


@pytest.fixture
def benchmarked(store: Store, tmp_path: Path) -> Store:
    """Benchmark `qa` of three items, and `other` of one."""
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, ITEMS)))
    (tmp_path / "other.txt").write_text("completely different words that nobody wrote down before today in any corpus")
    store.benchmarks.register("qa", "Questions", Corpus(path=tmp_path / "qa.jsonl"), "eval team")
    store.benchmarks.register("other", "Other", Corpus(path=tmp_path / "other.txt"), "eval team")
    return store


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of two text files and one of JSON lines; three of its five documents leak."""
    folder = tmp_path / "corpus"
    (folder / "deep").mkdir(parents=True)
    (folder / "clean.txt").write_text(CLEAN)
    (folder / "deep" / "quoted.md").write_text(f"{CLEAN}\n> which RIVER flows, through the old\ntown of Heidelberg?")
    lines = [
        {"text": "trivia: how many strings does a standard concert guitar have - and how are they tuned? six", "n": 1},
        {"text": "Who wrote it? Ada! Grace knows.", "n": 2},
        {"text": "flows through the old town of Heidelberg", "n": 3},
    ]
    (folder / "more.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def test_planted_leaks_are_found_and_clean_documents_are_not(benchmarked: Store, corpus: Path) -> None:
    read = Corpus(path=corpus, text_field="text")
    qa, other = benchmarked.benchmarks.decontaminate(read, ["qa", "other"], owner="ada")
    assert (qa.num_documents, qa.num_leaking_documents) == (5, 3)
    assert (qa.num_items, qa.num_leaked_items, qa.num_short_items) == (3, 3, 1)
    assert {(leak.document, leak.item) for leak in qa.leaks} == {
        ("deep/quoted.md", "qa.jsonl:1"),
        ("more.jsonl:1", "qa.jsonl:2"),
        ("more.jsonl:2", "qa.jsonl:3"),
    }
    by_item = {leak.item: leak for leak in qa.leaks}
    assert by_item["qa.jsonl:2"].share == 1.0
    assert by_item["qa.jsonl:1"].share == pytest.approx(2 / 5)  # 12 words have 5 8-grams, the quote has 9 of the words
    assert by_item["qa.jsonl:1"].example == "which river flows through the old town of"
    assert (other.num_leaking_documents, other.leaks) == (0, ())
    assert read.unread == ["picture.png"]
    assert len(qa.corpus_sha256) == 64


def test_reports_are_kept_once_and_lead_to_the_benchmark(benchmarked: Store, corpus: Path) -> None:
    for _ in range(2):
        benchmarked.benchmarks.decontaminate(Corpus(path=corpus), ["qa"], owner="ada")
    (report,) = benchmarked.benchmarks.reports("qa")
    assert benchmarked.benchmarks.reports("other") == []
    why = benchmarked.why.of("benchmark", "qa")
    assert ("decontamination", str(report.id)) in {(node.kind, node.id) for node in why.nodes}
    (corpus / "clean.txt").write_text(CLEAN + " more")
    benchmarked.benchmarks.decontaminate(Corpus(path=corpus), ["qa"], owner="ada")
    assert len(benchmarked.benchmarks.reports("qa")) == 2, "another corpus is another report"


def test_parquet_and_gzip_are_read(benchmarked: Store, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    folder.mkdir()
    texts = [f"{CLEAN} {item['question']}" for item in ITEMS]
    pq.write_table(pa.table({"text": [texts[0], CLEAN, None], "id": [1, 2, 3]}), folder / "a.parquet")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": texts[1]}).encode()))
    (folder / "c.txt.gz").write_bytes(gzip.compress(CLEAN.encode()))
    (folder / "d.jsonl.gz").write_bytes(b"no gzip")
    (folder / "e.txt.gz").write_bytes(gzip.compress(CLEAN.encode())[:-9])
    (folder / "f.parquet").write_bytes(b"no parquet")
    read = Corpus(path=folder, text_field="text")
    (report,) = benchmarked.benchmarks.decontaminate(read, ["qa"], owner="ada")
    assert {(leak.document, leak.item) for leak in report.leaks} == {
        ("a.parquet:1", "qa.jsonl:1"),
        ("b.jsonl.gz:1", "qa.jsonl:2"),
    }
    assert (report.num_documents, read.unread) == (4, [])
    assert [fault.partition(": ")[0] for fault in read.bad] == ["a.parquet:3", "d.jsonl.gz", "e.txt.gz", "f.parquet"]


def test_an_item_with_an_address_is_found(store: Store, tmp_path: Path) -> None:
    item = "To whom do you write for a refund: write to shop@example.org, or call them?"
    (tmp_path / "item.txt").write_text(item)
    (tmp_path / "page.md").write_text(f"{CLEAN} {item} {CLEAN}")
    store.benchmarks.register("mail", "Mail", Corpus(path=tmp_path / "item.txt"), "eval team")
    (report,) = store.benchmarks.decontaminate(Corpus(path=tmp_path / "page.md"), ["mail"], owner="ada")
    assert report.leaks[0].share == 1.0
    assert "example.org" not in str(report)


def test_bad_lines_are_named_and_the_rest_is_read(benchmarked: Store, tmp_path: Path) -> None:
    good, other = map(json.dumps, ITEMS[:2])
    lines = [good, "{broken", "\xff", "3", json.dumps({"question": 7}), "[" * 100_000, other]
    (tmp_path / "mixed.jsonl").write_bytes("\n".join(lines).encode("latin-1"))
    read = Corpus(path=tmp_path / "mixed.jsonl", text_field="question")
    (report,) = benchmarked.benchmarks.decontaminate(read, ["qa"], owner="ada")
    assert (report.num_documents, report.num_leaking_documents) == (2, 2)
    assert read.num_bad == 5
    assert [fault.partition(": ")[0] for fault in read.bad] == [f"mixed.jsonl:{number}" for number in range(2, 7)]
    assert read.bad[3] == "mixed.jsonl:5: no text in 'question'"


def test_another_n_is_another_question(benchmarked: Store, corpus: Path) -> None:
    (wide,) = benchmarked.benchmarks.decontaminate(Corpus(path=corpus), ["qa"], owner="ada", n=7)
    assert wide.num_leaking_documents == 4, "seven words in a row are in the fifth document"


def test_benchmarks_keep_their_items(benchmarked: Store, tmp_path: Path) -> None:
    again = benchmarked.benchmarks.register("qa", "Q", Corpus(path=tmp_path / "qa.jsonl"), "somebody else")
    assert (again.title, again.num_items, again.owner) == ("Questions", 3, "eval team")
    assert [each.id for each in benchmarked.benchmarks.list()] == ["other", "qa"]
    for name, path, owner, what in (
        ("qa", tmp_path / "other.txt", "a", "other items"),
        ("new", tmp_path / "qa.jsonl", " ", "no owner"),
    ):
        with pytest.raises(UserInputError, match=what):
            benchmarked.benchmarks.register(name, "", Corpus(path=path), owner)
    (tmp_path / "bad.jsonl").write_text('{"a": "?!"}\n')
    with pytest.raises(UserInputError, match=r"bad.jsonl:1 has no words"):
        benchmarked.benchmarks.register("bad", "", Corpus(path=tmp_path / "bad.jsonl"), "a")


def test_what_cannot_be_read_is_named(benchmarked: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        Corpus(path=tmp_path / "nowhere")
    (tmp_path / "broken.jsonl").write_text('{"a": "b"}\n{broken\n')
    with pytest.raises(LogFormatError, match=r"broken.jsonl:2: Expecting"):
        benchmarked.benchmarks.register("new", "", Corpus(path=tmp_path / "broken.jsonl"), "a")
    with pytest.raises(UserInputError, match=r"no documents: broken.jsonl:1: no text in 'text'"):
        benchmarked.benchmarks.decontaminate(
            Corpus(path=tmp_path / "broken.jsonl", text_field="text"), ["qa"], owner="a"
        )
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserInputError, match="no documents"):
        benchmarked.benchmarks.decontaminate(Corpus(path=tmp_path / "empty"), ["qa"], owner="a")
    with pytest.raises(NotFound, match="unknown"):
        benchmarked.benchmarks.decontaminate(Corpus(path=tmp_path / "qa.jsonl"), ["unknown"], owner="a")


def test_words_are_compared_without_case_layout_and_compatibility_forms() -> None:
    assert words("Ｆｏｏ-BAR_baz, naïve ﬁne\n2nd") == ["foo", "bar", "baz", "naïve", "fine", "2nd"]
    overlaps = Overlaps([("a", "one two three four"), ("b", "two three four five")], n=3)
    matches = {match.item: overlaps.share(match) for match in overlaps.find("zero TWO three-four five six")}
    assert matches == {"a": 0.5, "b": 1.0}
    assert overlaps.find("one two, but not three four") == []
