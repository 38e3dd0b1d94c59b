"""Corpora from elsewhere: WARC files, saved Hugging Face datasets, and a tokenizer of theirs."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from small_training import small_config

from contracts.errors import ConfigError, EnvironmentFault, UserInputError
from trainer import Recipe
from trainer.corpus import corpus_of
from trainer.folder_corpus import load_folder
from trainer.staged import StagedTraining

TOKENIZER = Path(__file__).parent / "examples" / "tokenizer.json"
PAGE = (
    b"<html><head><style>p {color: red}</style><script>var hidden = 1;</script></head>"
    b"<body><p>Fish &amp; chips</p><!-- no --><p>twice</p></body></html>"
)


def record(kind: str, body: bytes, http: bytes = b"") -> bytes:
    """One WARC record, as the format's standard (ISO 28500) lays it out."""
    block = http + body
    header = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:0-{len(block)}>\r\nWARC-Date: 2026-01-01T00:00:00Z"
        f"\r\nWARC-Target-URI: http://example.org/\r\nContent-Type: "
        f"{'application/http; msgtype=response' if http else 'text/plain'}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return header.encode() + block + b"\r\n\r\n"


def response(body: bytes, media: str) -> bytes:
    return record("response", body, f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\n".encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "web").mkdir()
    return tmp_path


def text_of(folder: Path) -> bytes:
    return load_folder(folder, ["web"], 100_000).sources[0].tobytes()


def test_pages_of_a_warc_file_are_documents(folder: Path) -> None:
    """Plain or compressed record by record, as crawls are; what is no text is left out."""
    pytest.importorskip("warcio")
    records = [
        record("warcinfo", b"software: none\r\n"),
        response(PAGE, "text/html; charset=utf-8"),
        response(b"\x89PNG", "image/png"),
        record("conversion", "plain, schön".encode()),
    ]
    (folder / "web" / "a.warc").write_bytes(b"".join(records))
    (folder / "web" / "b.warc.gz").write_bytes(b"".join(gzip.compress(each) for each in records))
    assert text_of(folder) == "Fish & chips\ntwice\0plain, schön\0".encode() * 2


def test_a_damaged_warc_file_is_named(folder: Path) -> None:
    pytest.importorskip("warcio")
    (folder / "web" / "a.warc").write_bytes(b"this is no WARC\r\n\r\n" * 5)
    with pytest.raises(UserInputError, match=r"a\.warc"):
        text_of(folder)


def test_a_saved_dataset_is_read(folder: Path) -> None:
    """Both as the source itself and as a folder in it, with and without splits."""
    datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_dict({"content": ["eins", "zwei"], "label": [0, 1]})
    one.save_to_disk(str(folder / "web" / "one"))
    assert text_of(folder) == b"eins\0zwei\0"
    two = datasets.DatasetDict({"train": one, "test": datasets.Dataset.from_dict({"text": ["drei"]})})
    two.save_to_disk(str(folder / "split" / "web"))
    assert text_of(folder / "split") == b"eins\0zwei\0drei\0"


@pytest.mark.parametrize("package", ["warcio", "datasets"])
def test_a_missing_package_is_told(folder: Path, package: str) -> None:
    try:
        __import__(package)
    except ModuleNotFoundError:
        pass
    else:
        pytest.skip(f"{package} is installed")
    path = folder / "web" / ("a.warc" if package == "warcio" else "dataset_info.json")
    path.write_bytes(b"")
    with pytest.raises(EnvironmentFault, match=package) as caught:
        text_of(folder)
    assert "corpora" in caught.value.remedy


def test_a_tokenizer_makes_the_tokens() -> None:
    """Documents keep their bounds, fewer tokens carry the same text, and the model trains on them."""
    tokenizers = pytest.importorskip("tokenizers")
    plain = small_config()
    config = plain.with_overrides(
        {"data.tokenizer": str(TOKENIZER), "model.vocab_size": 300, "data.documents": "packed"}
    )
    text = corpus_of(plain.data, 300)
    tokens = corpus_of(config.data, config.model.vocab_size)
    theirs = tokenizers.Tokenizer.from_file(str(TOKENIZER))
    for before, after in zip(text.sources, tokens.sources, strict=True):
        whole = before.tobytes().removesuffix(b"\0").decode("utf-8", "replace").split("\0")
        ends = np.flatnonzero(after == tokens.end)
        assert len(ends) == len(whole)
        assert len(after) < len(before)
        assert theirs.decode(after[: ends[0]].tolist()) == whole[0]
    assert tokens.sha256 != text.sha256
    training = StagedTraining(Recipe(config=config), None, iter(range(10**6)).__next__)
    losses = [training.advance().values["lm_loss"] for _ in range(6)]
    assert losses[-1] < losses[0]


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    config = small_config().with_overrides({"data.tokenizer": str(TOKENIZER)})
    with pytest.raises(ConfigError, match=r"has 300 tokens, model\.vocab_size is 256"):
        corpus_of(config.data, config.model.vocab_size)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UserInputError, match=r"bad\.json"):
        corpus_of(config.data.model_copy(update={"tokenizer": str(tmp_path / "bad.json")}), 300)
