"""Reads the documents of a corpus: a file or folder of plain text (one document a file) or JSON lines (one a line)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from context_store.overlaps import text_of
from contracts.errors import NotFound

MAX_BAD = 20
_LINES = {".jsonl", ".ndjson"}
_TEXT = {".txt", ".md", ".rst", ".html", ".tex", ".py", ".csv", ".tsv", ""}


@dataclass(kw_only=True)
class Corpus:
    """Its documents, read as a stream. `sha256` is over the files read so far, `unread` names files of other kinds.

    `num_bad`: lines of JSON lines without a document; `bad` names the first MAX_BAD of them as FILE:LINE: REASON.
    """

    path: Path
    text_field: str = ""
    unread: list[str] = field(default_factory=list)
    num_bad: int = 0
    bad: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise NotFound(f"{self.path} does not exist", remedy="give a file or folder of text or JSON lines")
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def documents(self) -> Iterator[tuple[str, str]]:
        """(name, text): PATH, or PATH:LINE of JSON lines; a line that cannot be read is noted in `bad`."""
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
                if not line.strip():
                    continue
                try:
                    text = self._text(line)
                except (ValueError, RecursionError) as error:
                    self._note(f"{name}:{number}: {error}")
                else:
                    yield f"{name}:{number}", text

    def _note(self, fault: str) -> None:
        self.num_bad += 1
        if len(self.bad) < MAX_BAD:
            self.bad.append(fault)

    def _text(self, line: bytes) -> str:
        """Raises ValueError for what is no document."""
        record = json.loads(line)
        if isinstance(record, str):
            return record
        if not isinstance(record, dict):
            raise ValueError("no JSON object")
        if not self.text_field:
            return text_of(record)
        if not isinstance(record.get(self.text_field), str):
            raise ValueError(f"no text in '{self.text_field}'")
        return str(record[self.text_field])
