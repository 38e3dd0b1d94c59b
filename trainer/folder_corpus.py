"""A corpus of one's own: a folder whose sub-folders are the sources, read in the order of their paths.

Text files are a document each; JSON lines, Parquet and saved Hugging Face datasets have one a line or row, in the field
`text` or else `content`; WARC files one a page. All but Parquet may be packed (`archives.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from contracts.errors import UserInputError
from trainer.archives import kind_of, of_dataset, of_warc, opened, paths
from trainer.corpus import Corpus

_FIELDS = ("text", "content")
_END = b"\0"


def load_folder(folder: Path, sources: Sequence[str], max_bytes: int) -> Corpus:
    """At most `max_bytes` in all, equally of each source; a zero byte ends each document.

    Raises UserInputError for a source that is missing or empty and for a record without text, naming file and line.
    """
    share = max_bytes // len(sources)
    digest = hashlib.sha256()
    texts, cut = [], []
    for name in sources:
        text, is_whole = _text(folder / name, share)
        cut += [] if is_whole else [name]
        digest.update(f"{name} {len(text)} ".encode() + text)
        texts.append(np.frombuffer(text, dtype=np.uint8))
    return Corpus(sources=tuple(texts), sha256=digest.hexdigest(), cut=tuple(cut))


def _text(folder: Path, share: int) -> tuple[bytes, bool]:
    """At most `share` bytes, and whether that is all that the folder has."""
    if not folder.is_dir():
        raise UserInputError(
            f"data.folder: {folder} is no folder", remedy="data.mixture.folders names sub-folders of data.folder"
        )
    text = bytearray()
    for path in paths(folder):
        for document in _documents(path):
            if len(text) >= share:
                return bytes(text[:share]), False
            text += document.replace(_END, b"") + _END
    if not text.strip(_END):
        raise UserInputError(
            f"data.folder: {folder} has no text", remedy="put text, JSON lines, Parquet or WARC files there"
        )
    return bytes(text[:share]), len(text) <= share


def _documents(path: Path) -> Iterator[bytes]:
    kind = kind_of(path)
    if kind == "dataset":
        for split, row, record in of_dataset(path, _FIELDS):
            yield _field(record, ", ".join(filter(None, (str(path), split, f"row {row}"))))
    elif kind == ".warc":
        yield from of_warc(path)
    elif kind in (".jsonl", ".ndjson"):
        yield from _of_lines(path)
    elif kind == ".parquet":
        yield from _of_parquet(path)
    else:
        with opened(path) as file:
            yield file.read()


def _of_lines(path: Path) -> Iterator[bytes]:
    with opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    record = json.loads(line)
                except ValueError as error:
                    raise _unreadable(f"{path}, line {number}", str(error)) from error
                yield _field(record, f"{path}, line {number}")


def _of_parquet(path: Path) -> Iterator[bytes]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    row = 0
    try:
        file = ParquetFile(path)
        names = file.schema_arrow.names
        if not any(name in names for name in _FIELDS):
            raise _without_text(str(path), names)
        for batch in file.iter_batches(columns=[name for name in _FIELDS if name in names]):
            for record in batch.to_pylist():
                row += 1
                yield _field(record, f"{path}, row {row}")
    except (ArrowException, OSError) as error:
        raise _unreadable(f"{path}, behind row {row}", str(error)) from error


def _field(record: object, where: str) -> bytes:
    found = [record[name] for name in _FIELDS if name in record] if isinstance(record, dict) else []
    if not found or not isinstance(found[0], str):
        raise _without_text(where, list(record) if isinstance(record, dict) else [])
    try:
        return found[0].encode()
    except UnicodeEncodeError as error:  # half of a pair of code units
        raise _unreadable(where, str(error)) from error


def _without_text(where: str, names: Sequence[str]) -> UserInputError:
    known = f"; it has {', '.join(names)}" if names else ""
    return UserInputError(
        f"data.folder: {where}: no text in the field {' or '.join(_FIELDS)}{known}",
        remedy="rename the field that holds the documents to text",
    )


def _unreadable(where: str, what: str) -> UserInputError:
    return UserInputError(f"data.folder: {where}: {what}", remedy="correct the file, or move it out of the folder")
