"""Reads the documents of a corpus: a file or folder of plain text (one document a file), JSON lines (one a line) or
Parquet (one a row); text and JSON lines also gzipped."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from context_store.overlaps import text_of
from contracts.errors import NotFound

MAX_BAD = 20
_LINES = {".jsonl", ".ndjson"}
_TEXT = {".txt", ".md", ".rst", ".html", ".tex", ".py", ".csv", ".tsv", ""}


@dataclass(kw_only=True)
class Corpus:
    """Its documents, read as a stream. `sha256` is over the files read so far (unpacked), `unread` names those of other
    kinds.

    `num_bad`: lines and rows without a document, and files that are broken; `bad` names the first MAX_BAD of them as
    FILE:LINE: REASON.
    """

    path: Path
    text_field: str = ""
    unread: list[str] = field(default_factory=list)
    num_bad: int = 0
    bad: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise NotFound(f"{self.path} does not exist", remedy="give a file or folder of text, JSON lines or Parquet")
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def documents(self) -> Iterator[tuple[str, str]]:
        """(name, text): PATH, or PATH:LINE of JSON lines and Parquet; what cannot be read is noted in `bad`."""
        files = [self.path] if self.path.is_file() else sorted(each for each in self.path.rglob("*") if each.is_file())
        for file in files:
            name = file.name if self.path.is_file() else str(file.relative_to(self.path))
            try:
                yield from self._documents(file, name)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                self._note(f"{name}: {error}")

    def _documents(self, file: Path, name: str) -> Iterator[tuple[str, str]]:
        packed = file.suffix.lower() == ".gz"
        kind = Path(file.stem if packed else file.name).suffix.lower()
        if kind in _LINES:
            with _opened(file, packed) as lines:
                yield from self._lines(lines, name)
        elif kind in _TEXT:
            with _opened(file, packed) as whole:
                content = whole.read()
            self._hash.update(content)
            yield name, content.decode("utf-8", "replace")
        elif kind == ".parquet" and not packed:
            yield from self._rows(file, name)
        else:
            self.unread.append(name)

    def _lines(self, lines: BinaryIO, name: str) -> Iterator[tuple[str, str]]:
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

    def _rows(self, file: Path, name: str) -> Iterator[tuple[str, str]]:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        with file.open("rb") as content:
            while piece := content.read(1 << 20):
                self._hash.update(piece)
        number = 0
        try:
            for batch in ParquetFile(file).iter_batches():
                for record in batch.to_pylist():
                    number += 1
                    try:
                        text = self._text(record)
                    except ValueError as error:
                        self._note(f"{name}:{number}: {error}")
                    else:
                        yield f"{name}:{number}", text
        except (ArrowException, OSError) as error:
            self._note(f"{name}: {error}")

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


def _opened(file: Path, packed: bool) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file)) if packed else file.open("rb")
