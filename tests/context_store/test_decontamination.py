"""8-gram overlap of corpora with benchmarks. Shows R801-8.9: planted leaks are found, one report a benchmark."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from context_store import Store
from context_store.corpora import Corpus
from context_store.overlaps import Overlaps, words
from context_store.records import Decontamination
from contracts.errors import LogFormatError, NotFound, UserInputError
from trainer import archives

ITEMS: list[dict[str, Any]] = [
    {"question": "Which river flows through the old town of Heidelberg in Germany?", "answer": "Neckar"},
    {"question": "How many strings does a standard concert guitar have, and how are they tuned?", "answer": "six"},
    {"question": "Who wrote it?", "choices": ["Ada", "Grace"]},
]
CLEAN = "The river that runs by the castle is wide. Guitars come with six strings, mostly. Who wrote this?"


def corpus_of(path: Path, text_field: str = "") -> Corpus:
    """As a training reads it."""
    return Corpus(path=path, archives=archives, text_field=text_field)


def unread(report: Decontamination | Corpus) -> dict[str, str]:
    return {each.file: each.reason for each in report.unread}


@pytest.fixture
def benchmarked(store: Store, tmp_path: Path) -> Store:
    """Benchmark `qa` of three items, and `other` of one."""
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, ITEMS)))
    (tmp_path / "other.txt").write_text("completely different words that nobody wrote down before today in any corpus")
    store.benchmarks.register("qa", "Questions", corpus_of(tmp_path / "qa.jsonl"), "eval team")
    store.benchmarks.register("other", "Other", corpus_of(tmp_path / "other.txt"), "eval team")
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
    read = corpus_of(corpus, "text")
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
    for report in (qa, other):
        assert (report.num_unread, report.num_bad) == (1, 0)
        assert unread(report) == {"picture.png": "no text is read from .png files"}
    assert len(qa.corpus_sha256) == 64


def test_reports_are_kept_once_and_lead_to_the_benchmark(benchmarked: Store, corpus: Path) -> None:
    for _ in range(2):
        benchmarked.benchmarks.decontaminate(corpus_of(corpus), ["qa"], owner="ada")
    (report,) = benchmarked.benchmarks.reports("qa")
    assert benchmarked.benchmarks.reports("other") == []
    why = benchmarked.why.of("benchmark", "qa")
    assert ("decontamination", str(report.id)) in {(node.kind, node.id) for node in why.nodes}
    (corpus / "clean.txt").write_text(CLEAN + " more")
    benchmarked.benchmarks.decontaminate(corpus_of(corpus), ["qa"], owner="ada")
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
    read = corpus_of(folder, "text")
    (report,) = benchmarked.benchmarks.decontaminate(read, ["qa"], owner="ada")
    assert {(leak.document, leak.item) for leak in report.leaks} == {
        ("a.parquet:1", "qa.jsonl:1"),
        ("b.jsonl.gz:1", "qa.jsonl:2"),
    }
    assert (report.num_documents, report.bad) == (4, ("a.parquet:3: no text in 'text'",))
    assert list(unread(report)) == ["d.jsonl.gz", "e.txt.gz", "f.parquet"]
    assert all(unread(report).values()), "each says why"
    assert benchmarked.benchmarks.reports("qa") == [report], "also in the report that is stored"


def test_what_a_training_reads_is_searched(benchmarked: Store, tmp_path: Path) -> None:
    """WARC files, saved datasets and files packed with zstd, also in several frames."""
    pytest.importorskip("warcio")
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "foreign"
    folder.mkdir()
    texts = [f"{CLEAN} {item['question']} {' '.join(item.get('choices', ()))}" for item in ITEMS]
    pages = [CLEAN.encode(), f"<p>{texts[0]}</p>".encode()]
    (folder / "a.warc.gz").write_bytes(b"".join(gzip.compress(page_of(each)) for each in pages))
    rows = datasets.Dataset.from_dict({"id": [1, 2], "story": [CLEAN, texts[1]]})
    datasets.DatasetDict({"train": rows}).save_to_disk(str(folder / "b"))
    (folder / "c.jsonl.zst").write_bytes(b"".join(zstandard.compress(line(each)) for each in (CLEAN, texts[2])))
    (report,) = benchmarked.benchmarks.decontaminate(corpus_of(folder), ["qa"], owner="ada")
    assert (report.num_documents, report.num_unread, report.num_bad) == (6, 0, 0)
    assert {(leak.document, leak.item) for leak in report.leaks} == {
        ("a.warc.gz:2", "qa.jsonl:1"),
        ("b:train:2", "qa.jsonl:2"),
        ("c.jsonl.zst:2", "qa.jsonl:3"),
    }
    (folder / "b" / "train" / "state.json").unlink()
    (folder / "c.jsonl.zst").write_bytes(zstandard.compress(line(texts[2]))[:-3])
    (folder / "d.warc").write_bytes(b"no WARC")
    (folder / "e.txt").write_text(CLEAN)
    (damaged,) = benchmarked.benchmarks.decontaminate(corpus_of(folder), ["qa"], owner="ada")
    assert list(unread(damaged)) == ["b", "c.jsonl.zst", "d.warc"]
    assert "ends within a zstd frame" in unread(damaged)["c.jsonl.zst"]
    assert damaged.corpus_sha256 != report.corpus_sha256


@pytest.mark.parametrize(("package", "file"), [("warcio", "a.warc"), ("datasets", "b/dataset_info.json")])
def test_a_corpus_that_needs_another_package_says_so(
    benchmarked: Store, tmp_path: Path, package: str, file: str
) -> None:
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    path = tmp_path / "foreign" / file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    (tmp_path / "foreign" / "e.txt").write_text(CLEAN)
    (report,) = benchmarked.benchmarks.decontaminate(corpus_of(tmp_path / "foreign"), ["qa"], owner="ada")
    (reason,) = unread(report).values()
    assert f"needs {package}" in reason
    assert "pip install" in reason


def line(text: str) -> bytes:
    return json.dumps({"text": text}).encode() + b"\n"


def page_of(html: bytes) -> bytes:
    """One WARC record (ISO 28500)."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + html
    header = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:0>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n"
        "WARC-Target-URI: http://example.org/\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return header.encode() + block + b"\r\n\r\n"


def test_an_item_with_an_address_is_found(store: Store, tmp_path: Path) -> None:
    item = "To whom do you write for a refund: write to shop@example.org, or call them?"
    (tmp_path / "item.txt").write_text(item)
    (tmp_path / "page.md").write_text(f"{CLEAN} {item} {CLEAN}")
    store.benchmarks.register("mail", "Mail", corpus_of(tmp_path / "item.txt"), "eval team")
    (report,) = store.benchmarks.decontaminate(corpus_of(tmp_path / "page.md"), ["mail"], owner="ada")
    assert report.leaks[0].share == 1.0
    assert "example.org" not in str(report)


def test_bad_lines_are_named_and_the_rest_is_read(benchmarked: Store, tmp_path: Path) -> None:
    good, other = map(json.dumps, ITEMS[:2])
    lines = [good, "{broken", "\xff", "3", json.dumps({"question": 7}), "[" * 100_000, other]
    (tmp_path / "mixed.jsonl").write_bytes("\n".join(lines).encode("latin-1"))
    read = corpus_of(tmp_path / "mixed.jsonl", "question")
    (report,) = benchmarked.benchmarks.decontaminate(read, ["qa"], owner="ada")
    assert (report.num_documents, report.num_leaking_documents) == (2, 2)
    assert report.num_bad == 5
    assert [fault.partition(": ")[0] for fault in report.bad] == [f"mixed.jsonl:{number}" for number in range(2, 7)]
    assert report.bad[3] == "mixed.jsonl:5: no text in 'question'"


def test_another_n_is_another_question(benchmarked: Store, corpus: Path) -> None:
    (wide,) = benchmarked.benchmarks.decontaminate(corpus_of(corpus), ["qa"], owner="ada", n=7)
    assert wide.num_leaking_documents == 4, "seven words in a row are in the fifth document"


def test_benchmarks_keep_their_items(benchmarked: Store, tmp_path: Path) -> None:
    again = benchmarked.benchmarks.register("qa", "Q", corpus_of(tmp_path / "qa.jsonl"), "somebody else")
    assert (again.title, again.num_items, again.owner) == ("Questions", 3, "eval team")
    assert [each.id for each in benchmarked.benchmarks.list()] == ["other", "qa"]
    for name, path, owner, what in (
        ("qa", tmp_path / "other.txt", "a", "other items"),
        ("new", tmp_path / "qa.jsonl", " ", "no owner"),
    ):
        with pytest.raises(UserInputError, match=what):
            benchmarked.benchmarks.register(name, "", corpus_of(path), owner)
    (tmp_path / "bad.jsonl").write_text('{"a": "?!"}\n')
    with pytest.raises(UserInputError, match=r"bad.jsonl:1 has no words"):
        benchmarked.benchmarks.register("bad", "", corpus_of(tmp_path / "bad.jsonl"), "a")


def test_what_cannot_be_read_is_named(benchmarked: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        corpus_of(tmp_path / "nowhere")
    (tmp_path / "broken.jsonl").write_text('{"a": "b"}\n{broken\n')
    with pytest.raises(LogFormatError, match=r"broken.jsonl:2: Expecting"):
        benchmarked.benchmarks.register("new", "", corpus_of(tmp_path / "broken.jsonl"), "a")
    with pytest.raises(UserInputError, match=r"no documents: broken.jsonl:1: no text in 'text'"):
        benchmarked.benchmarks.decontaminate(corpus_of(tmp_path / "broken.jsonl", "text"), ["qa"], owner="a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserInputError, match="no documents"):
        benchmarked.benchmarks.decontaminate(corpus_of(tmp_path / "empty"), ["qa"], owner="a")
    with pytest.raises(NotFound, match="unknown"):
        benchmarked.benchmarks.decontaminate(corpus_of(tmp_path / "qa.jsonl"), ["unknown"], owner="a")


def test_words_are_compared_without_case_layout_and_compatibility_forms() -> None:
    assert words("Ｆｏｏ-BAR_baz, naïve ﬁne\n2nd") == ["foo", "bar", "baz", "naïve", "fine", "2nd"]
    overlaps = Overlaps([("a", "one two three four"), ("b", "two three four five")], n=3)
    matches = {match.item: overlaps.share(match) for match in overlaps.find("zero TWO three-four five six")}
    assert matches == {"a": 0.5, "b": 1.0}
    assert overlaps.find("one two, but not three four") == []
