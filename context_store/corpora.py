"""Reads the documents of a corpus: a file or folder of plain text (one document a file) or JSON lines (one a line)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from context_store.overlaps import text_of
from contracts.errors import LogFormatError, NotFound

_LINES = {".jsonl", ".ndjson"}
_TEXT = {".txt", ".md", ".rst", ".html", ".tex", ".py", ".csv", ".tsv", ""}


@dataclass(kw_only=True)
class Corpus:
    """Its documents, read as a stream. `sha256` is over the files read so far, `unread` names files of other kinds."""

    path: Path
    text_field: str = ""
    unread: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise NotFound(f"{self.path} does not exist", remedy="give a file or folder of text or JSON lines")
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def documents(self) -> Iterator[tuple[str, str]]:
        """(name, text): PATH, or PATH:LINE of JSON lines. Raises LogFormatError for a line that is no JSON object."""
        files = [self.path] if self.path.is_file() else sorted(each for each in self.path.rglob("*") if each.is_file())
        for file in files:
            name = file.name if self.path.is_file() else str(file.relative_to(self.path))
            if file.suffix.lower() in _LINES:
                yield from self._lines(file, name)
            elif file.suffix.lower() in _TEXT:
                content = file.read_bytes()
                self._hash.update(content)
                yield name, content.decode("utf-8", "replace")
            else:
                self.unread.append(name)

    def _lines(self, file: Path, name: str) -> Iterator[tuple[str, str]]:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                self._hash.update(line)
                if line.strip():
                    yield f"{name}:{number}", self._text(line, f"{file}, line {number}")

    def _text(self, line: bytes, where: str) -> str:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise LogFormatError(f"{where}: {error}", remedy="one JSON object a line") from error
        if isinstance(record, str):
            return record
        if not isinstance(record, dict):
            raise LogFormatError(f"{where}: no JSON object", remedy="one JSON object a line")
        if not self.text_field:
            return text_of(record)
        if not isinstance(record.get(self.text_field), str):
            raise LogFormatError(f"{where}: no text in '{self.text_field}'", remedy="name the field with the text")
        return str(record[self.text_field])
