"""A folder of one's own as the corpus: text, JSON lines, Parquet, compressed or not."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from small_training import Trainings, small_config

from contracts.errors import UserInputError
from contracts.events import SegmentStarted
from trainer import Recipe
from trainer.corpus import corpus_of, load_corpus
from trainer.folder_corpus import load_folder
from trainer.staged import StagedTraining
from trainer.training import Training


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sources; `code` has its documents in five files of four formats, in the order of their names."""
    (tmp_path / "prose" / "deep").mkdir(parents=True)
    (tmp_path / "code").mkdir()
    (tmp_path / "prose" / "deep" / "b.txt").write_text("zwei\0 zero")
    (tmp_path / "prose" / "a.md").write_text("eins")
    (tmp_path / "code" / "1.py").write_text("one")
    (tmp_path / "code" / "2.jsonl").write_text(json.dumps({"text": "two", "content": "no"}) + "\n\n")
    with gzip.open(tmp_path / "code" / "3.jsonl.gz", "wt") as file:
        file.write(json.dumps({"content": "three"}) + "\n")
    with gzip.open(tmp_path / "code" / "4.txt.gz", "wt") as file:
        file.write("four")
    parquet.write_table(pyarrow.table({"id": [1, 2], "text": ["five", "six"]}), tmp_path / "code" / "5.parquet")
    return tmp_path


def test_every_format_is_read_in_order(folder: Path) -> None:
    corpus = load_folder(folder, ["prose", "code"], 10_000)
    prose, code = (text.tobytes() for text in corpus.sources)
    assert prose == b"eins\0zwei zero\0"
    assert code == b"one\0two\0three\0four\0five\0six\0"
    cut = load_folder(folder, ["prose", "code"], 12)
    assert [text.tobytes() for text in cut.sources] == [b"eins\0z", b"one\0tw"]
    assert len({corpus.sha256, cut.sha256, load_folder(folder, ["code", "prose"], 10_000).sha256}) == 3


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("bad.jsonl", b'{"text": "fine"}\n{"text": \n', r"bad.jsonl, line 2"),
        ("bad.jsonl", b'{"title": "none"}\n', r"bad.jsonl, line 1: no text in the field text or content"),
        ("bad.jsonl", b'{"text": "fine"}\n{"text": "\\ud83d"}\n', r"bad.jsonl, line 2: .*surrogates not allowed"),
        ("bad.jsonl", b'{"title": "a", "body": "b"}\n', r"or content; it has title, body"),
        ("bad.parquet", b"not parquet", r"bad.parquet"),
    ],
)
def test_a_bad_record_is_named(folder: Path, file: str, content: bytes, message: str) -> None:
    (folder / "prose" / file).write_bytes(content)
    with pytest.raises(UserInputError, match=message):
        load_folder(folder, ["prose"], 10_000)


def test_a_damaged_page_and_a_table_without_text_are_named(folder: Path) -> None:
    path = folder / "prose" / "a.parquet"
    table = pyarrow.table({"text": [f"{number:08}" * 50 for number in range(1000)]})
    parquet.write_table(table, path, compression="gzip", row_group_size=500, use_dictionary=False)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + bytes(400) + whole[len(whole) // 2 + 400 :])
    with pytest.raises(UserInputError, match=r"a\.parquet, behind row \d+"):
        load_folder(folder, ["prose"], 10_000_000)
    parquet.write_table(pyarrow.table({"title": ["a"], "body": ["b"]}), path)
    with pytest.raises(UserInputError, match=r"a\.parquet: no text .*it has title, body") as caught:
        load_folder(folder, ["prose"], 10_000)
    assert "rename the field" in caught.value.remedy


def test_links_that_lead_nowhere_or_back_are_named(folder: Path) -> None:
    (folder / "prose" / "deep" / "back").symlink_to(folder / "prose")
    with pytest.raises(UserInputError, match=r"deep/back is a link to a folder that holds it"):
        load_folder(folder, ["prose"], 10_000)
    (folder / "code" / "0.txt").symlink_to(folder / "code" / "0.txt")
    with pytest.raises(UserInputError, match=r"0\.txt"):
        load_folder(folder, ["code"], 10_000)


def test_what_is_cut_off_is_said(folder: Path, trainings: Trainings) -> None:
    assert load_folder(folder, ["prose", "code"], 10_000).cut == ()
    assert load_folder(folder, ["prose", "code"], 2 * len(b"one\0two\0three\0four\0five\0six\0")).cut == ()
    (folder / "code" / "long.py").write_text("x = turn(x)\n" * 900)
    (folder / "prose" / "long.txt").write_text("a lathe " * 90)
    config = small_config(data__folder=str(folder), data__mixture__folders="prose=3 code=1", data__corpus_bytes=8000)
    trace = trainings.here(config)
    assert trace.console[0] == "WARNING: data.corpus_bytes lets in only the beginning of code"
    (started,) = trace.of(SegmentStarted)
    assert isinstance(started, SegmentStarted)
    assert started.environment["corpus_cut"] == "code"


def test_missing_and_empty_sources_are_named(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(UserInputError, match=r"missing is no folder"):
        load_folder(folder, ["missing"], 10_000)
    with pytest.raises(UserInputError, match=r"empty has no text"):
        load_folder(folder, ["empty"], 10_000)


def test_training_reads_the_sources_by_weight(folder: Path) -> None:
    (folder / "prose" / "long.txt").write_text("a lathe can make its own parts " * 40)
    (folder / "code" / "long.py").write_text("x = turn(x)\n" * 90)
    config = small_config(data__folder=str(folder), data__mixture__folders="prose=3 code=1", steps=6)
    training = Training(
        Recipe(config=config), corpus_of(config.data, config.model.vocab_size), None, itertools.count(0.0).__next__
    )
    shares = [training.advance().values["mixture/source.prose"] for _ in range(6)]
    assert sum(shares) / len(shares) == pytest.approx(0.75, abs=0.05)


def test_a_run_goes_on_with_another_corpus(folder: Path) -> None:
    """From the standard library's four sources to two of one's own."""
    (folder / "prose" / "long.txt").write_text("a lathe can make its own parts " * 40)
    (folder / "code" / "long.py").write_text("x = turn(x)\n" * 90)
    before = small_config()
    training = Training(Recipe(config=before), load_corpus(40_000), None, itertools.count(0.0).__next__)
    training.advance()
    config = small_config(data__folder=str(folder), data__mixture__folders="prose=1 code=1")
    again = StagedTraining(Recipe(config=config), training.state(), itertools.count(0.0).__next__)
    values = again.advance().values
    assert values["mixture/source.prose"] + values["mixture/source.code"] == 1.0
