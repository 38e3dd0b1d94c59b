"""Foreign logs, read while they grow: each reader gives the rows that are new since it was asked last.

Add a format by a class with `rows` and a line in `_READERS`, and its word in command_spec.LogSection.
"""

from __future__ import annotations

import csv
import fnmatch
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from control_plane.backends.command_line import flat
from control_plane.backends.command_spec import STDOUT, LogSection


@dataclass(frozen=True, kw_only=True)
class Row:
    """Values that were logged together. `step` as in contracts.events.Metrics."""

    step: int
    values: Mapping[str, float]


class Reader(Protocol):
    """One file of a format."""

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Complete records that are new, as they stand there. What is half written comes later."""
        ...


class MetricsLog:
    """All log files of one attempt, with names as Lathe has them. `start_step`: older rows are history of other runs.

    `unread` counts complete records without a step, for the message of a training that logged nothing else.
    """

    def __init__(self, section: LogSection, attempt: Path, *, start_step: int) -> None:
        self._section = section
        self._attempt = attempt
        self._start_step = start_step
        self._readers: dict[Path, Reader] = {}
        self._rename = [(re.compile(pattern), name) for pattern, name in section.rename.items()]
        self._names: dict[str, str] = {}
        self.unread = 0

    def rows(self) -> Iterator[Row]:
        """New rows of every file, in the order of the file names."""
        for path in self._files():
            if path not in self._readers:
                self._readers[path] = _READERS[self._section.format](path, self._section)
            for record in self._readers[path].rows():
                row = self._row(record)
                if row is not None and row.step > self._start_step:
                    yield row

    @property
    def place(self) -> str:
        """Where it looks, in words."""
        is_output = self._section.file == STDOUT
        return "its standard output" if is_output else f"{self._section.file} in {self._attempt / 'output'}"

    def _files(self) -> list[Path]:
        if self._section.file == STDOUT:
            return [self._attempt / "stdout.txt"]
        found = sorted((self._attempt / "output").glob(self._section.file))
        if self._section.format == "trainer_state":
            return [self._attempt / "output"] if found else []
        return found

    def _row(self, record: Mapping[str, Any]) -> Row | None:
        fields = flat(record)
        step = _number(fields.pop(self._section.step, None))
        if step is None or not step.is_integer():
            self.unread += 1
            return None
        numbers = {self._name(name): number for name, value in fields.items() if (number := _number(value)) is not None}
        numbers.pop("", None)
        return Row(step=int(step) + self._section.step_offset, values=numbers) if numbers else None

    def _name(self, foreign: str) -> str:
        """Our name, "" for what is to be left out."""
        if foreign not in self._names:
            self._names[foreign] = self._translated(foreign)
        return self._names[foreign]

    def _translated(self, foreign: str) -> str:
        if any(fnmatch.fnmatchcase(foreign, pattern) for pattern in self._section.ignore):
            return ""
        for pattern, name in self._rename:
            if match := pattern.fullmatch(foreign):
                return match.expand(name)
        return foreign


class Lines:
    """New whole lines of a file that grows; a file that shrank is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.offset = 0

    def __iter__(self) -> Iterator[str]:
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if self._path.stat().st_size < self.offset:
                self.offset = 0
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.offset += len(line)
                yield line.decode(errors="replace").strip()


class JsonLines:
    """One JSON object a line; other lines are skipped. NaN and Infinity are read."""

    def __init__(self, path: Path, section: LogSection) -> None:
        self._lines = Lines(path)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        for line in self._lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


class TextLines:
    """Lines in which the pattern is found; its named groups are the fields."""

    def __init__(self, path: Path, section: LogSection) -> None:
        self._lines = Lines(path)
        self._pattern = re.compile(section.pattern)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        for line in self._lines:
            if match := self._pattern.search(line):
                yield match.groupdict()


class Table:
    """CSV with a header. A logger that meets a new metric rewrites the file with a wider one; rows keep their order."""

    def __init__(self, path: Path, section: LogSection) -> None:
        self._path = path
        self._num_read = 0
        self._lines = Lines(path)
        self._header: list[str] = []

    def rows(self) -> Iterator[Mapping[str, Any]]:
        header = self._present_header()
        if not header:
            return
        if header == self._header:
            yield from self._take(self._lines, skip=0)
            return
        lines = Lines(self._path)
        whole = list(lines)[1:]
        if len(whole) < self._num_read:
            return  # it is being rewritten just now
        self._header, self._lines = header, lines
        yield from self._take(iter(whole), skip=self._num_read)

    def _take(self, lines: Any, *, skip: int) -> Iterator[Mapping[str, Any]]:
        for number, cells in enumerate(csv.reader(lines)):
            if number >= skip:
                self._num_read += 1
                yield dict(zip(self._header, cells, strict=False))

    def _present_header(self) -> list[str]:
        for line in Lines(self._path):
            return next(csv.reader([line]))
        return []


class TrainerState:
    """`log_history` of the newest `trainer_state.json` of a Hugging Face Trainer; each repeats those before it.

    It stands in every checkpoint and, once the script calls `save_state`, in the output folder itself.
    """

    def __init__(self, output: Path, section: LogSection) -> None:
        self._output = output
        self._glob = section.file
        self._num_read = 0
        self._looked_at: dict[Path, int] = {}

    def rows(self) -> Iterator[Mapping[str, Any]]:
        times = {path: path.stat().st_mtime_ns for path in self._output.glob(self._glob)}
        changed = [path for path, at in times.items() if self._looked_at.get(path) != at]
        longest: list[Mapping[str, Any]] = []
        for path in changed:
            try:
                history = json.loads(path.read_text())["log_history"]
            except (ValueError, KeyError, OSError):
                continue  # half written: it changes again
            self._looked_at[path] = times[path]
            longest = max(longest, history, key=len)
        new = longest[self._num_read :]
        self._num_read += len(new)
        yield from new


def _number(value: object) -> float | None:
    """Numbers, and text that is one ("nan" and "inf" too)."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


_READERS: dict[str, type[JsonLines] | type[TextLines] | type[Table] | type[TrainerState]] = {
    "jsonl": JsonLines,
    "csv": Table,
    "trainer_state": TrainerState,
    "regex": TextLines,
}
