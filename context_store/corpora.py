"""Reads the documents of a corpus: plain text (one document a file), JSON lines (one a line), Parquet and saved
datasets (one a row), WARC (one a page). How they are packed is for `Archives` to say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from context_store.overlaps import text_of
from context_store.records import Unread
from contracts.errors import LatheError, NotFound

KINDS = "text, JSON lines, Parquet, WARC or saved datasets"
MAX_BAD = 20
_LINES = {".jsonl", ".ndjson"}
_TEXT = {".txt", ".md", ".rst", ".html", ".tex", ".py", ".csv", ".tsv", ""}


class Archives(Protocol):
    """How files lie in a folder. `trainer.archives` is one: then what a training reads is what is searched.

    Damaged files raise a LatheError when they are read, as does a format whose library is not installed.
    """

    def paths(self, folder: Path) -> Iterator[Path]:
        """Files and saved datasets, in an order that stays."""

    def kind_of(self, path: Path) -> str:
        """`dataset`, or the suffix below the packing."""

    def opened(self, path: Path) -> BinaryIO:
        """Unpacked."""

    def of_warc(self, path: Path) -> Iterator[bytes]:
        """The text of each page."""

    def of_dataset(self, folder: Path, fields: Sequence[str] = ()) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
        """(split, row, record)."""


@dataclass(kw_only=True)
class Corpus:
    """Its documents, read as a stream.

    `sha256` is over what was read so far: unpacked files, of WARC and saved datasets the texts. `unread`: files that
    are of another kind, or were not read to their end. `num_bad`: lines and rows without a document; `bad` names the
    first MAX_BAD of them as FILE:LINE: REASON.
    """

    path: Path
    archives: Archives
    text_field: str = ""
    unread: list[Unread] = field(default_factory=list)
    num_bad: int = 0
    bad: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise NotFound(f"{self.path} does not exist", remedy=f"give a file or folder of {KINDS}")
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def documents(self) -> Iterator[tuple[str, str]]:
        """(name, text): PATH, or PATH:LINE of what has several; what cannot be read is noted."""
        for path in [self.path] if self.path.is_file() else self.archives.paths(self.path):
            name = path.name if path == self.path else str(path.relative_to(self.path))
            try:
                yield from self._documents(path, name)
            except (LatheError, OSError) as error:
                self.unread.append(Unread(file=name, reason=_told(error, path)))

    def _documents(self, path: Path, name: str) -> Iterator[tuple[str, str]]:
        kind = self.archives.kind_of(path)
        if kind in _LINES:
            yield from self._lines(path, name)
        elif kind in _TEXT:
            with self.archives.opened(path) as whole:
                content = whole.read()
            self._hash.update(content)
            yield name, content.decode("utf-8", "replace")
        elif kind == ".parquet":
            yield from self._parquet(path, name)
        elif kind == "dataset":
            yield from self._dataset(path, name)
        elif kind == ".warc":
            for number, page in enumerate(self.archives.of_warc(path), start=1):
                self._hash.update(page)
                yield f"{name}:{number}", page.decode("utf-8", "replace")
        else:
            self.unread.append(Unread(file=name, reason=f"no text is read from {kind} files"))

    def _lines(self, path: Path, name: str) -> Iterator[tuple[str, str]]:
        with self.archives.opened(path) as lines:
            for number, line in enumerate(lines, start=1):
                self._hash.update(line)
                if not line.strip():
                    continue
                try:
                    text = self._text(json.loads(line))
                except (ValueError, RecursionError) as error:
                    self._note(f"{name}:{number}: {error}")
                else:
                    yield f"{name}:{number}", text

    def _parquet(self, path: Path, name: str) -> Iterator[tuple[str, str]]:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        with path.open("rb") as content:
            while piece := content.read(1 << 20):
                self._hash.update(piece)
        number = 0
        try:
            for batch in ParquetFile(path).iter_batches():
                for record in batch.to_pylist():
                    number += 1
                    yield from self._row(f"{name}:{number}", record)
        except (ArrowException, OSError) as error:
            self.unread.append(Unread(file=name, reason=str(error)))

    def _dataset(self, folder: Path, name: str) -> Iterator[tuple[str, str]]:
        fields = (self.text_field,) if self.text_field else ()
        for split, row, record in self.archives.of_dataset(folder, fields):
            for place, text in self._row(":".join(filter(None, (name, split, str(row)))), record):
                self._hash.update(text.encode("utf-8", "surrogatepass"))
                yield place, text

    def _row(self, place: str, record: Any) -> Iterator[tuple[str, str]]:
        try:
            yield place, self._text(record)
        except ValueError as error:
            self._note(f"{place}: {error}")

    def _note(self, fault: str) -> None:
        self.num_bad += 1
        if len(self.bad) < MAX_BAD:
            self.bad.append(fault)

    def _text(self, record: Any) -> str:
        """Raises ValueError for what is no document."""
        if isinstance(record, str):
            return record
        if not isinstance(record, dict):
            raise ValueError("no JSON object")
        if not self.text_field:
            return text_of(record)
        if not isinstance(record.get(self.text_field), str):
            raise ValueError(f"no text in '{self.text_field}'")
        return str(record[self.text_field])


def _told(error: LatheError | OSError, path: Path) -> str:
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return f"{error.message.removeprefix(f'{path}: ')} ({error.remedy})"
