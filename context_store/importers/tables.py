"""JSON lines, CSV and TSV with one row a step. Which column is the step is declared, or known by its name.

Bare and quoted NaN and infinities are values; an empty cell, null or a word for nothing is none. Anything else in a
column of numbers is reported; a column that never has a number is no series.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from context_store.importers.companions import beside, describe
from context_store.importers.configs import flat
from context_store.importers.formats import Columnar, Format, Source, Tree, listing
from context_store.importers.items import Fact, Items, Problem
from context_store.importers.lines import read_lines, sample
from context_store.importers.row_runs import Known, RowRuns
from contracts.enums import TimelineKind

STEPS = ("global_step", "train/global_step", "trainer/global_step", "step", "Step", "_step", "iteration", "iter")
TIMES = ("_timestamp", "timestamp", "wall_time", "time")
_JSON, _TABLE = (".jsonl", ".ndjson"), {".csv": ",", ".tsv": "\t"}
_PART = re.compile(r"^(.+)[._-](?:segment|seg|part|attempt|restart)[._-]?(\d+)$")
_EVAL = re.compile(r"^(?:eval|val|valid|validation|test)[_/.]")
_NOTHING = {"", "null", "none", "n/a", "na", "-"}
_WORDS = {"nan": float("nan"), "inf": float("inf"), "infinity": float("inf")}
_MAX_PROBLEMS = 20
Fields = Mapping[str, Any]


def find(tree: Tree) -> list[Source]:
    groups: dict[Path, list[Path]] = {}
    for path in tree.files:
        if _is_table(path, tree.columnar):
            groups.setdefault(_stem(path), []).append(path)
    found = []
    for stem, paths in groups.items():
        if tree.root in paths:  # one part alone does not say which of the run's it is
            others = (each for each in listing(stem.parent) if each.is_file() and _stem(each) == stem)
            paths += [each for each in others if each != tree.root and _is_table(each, tree.columnar)]
        paths.sort(key=lambda path: (_part_number(path), path))
        companions = beside(stem.with_name(f"{stem.name}.log"))
        found.append(Source(files=tuple(paths), companions=companions, columnar=tree.columnar))
    return found


def _is_table(path: Path, columnar: Columnar) -> bool:
    return path.suffix in (*_JSON, *_TABLE) and bool(_step_column(_first_fields(path), columnar))


def _stem(path: Path) -> Path:
    """The same for all parts of one run."""
    match = _PART.match(path.stem)
    return path.with_name(match[1] if match else path.stem)


def _part_number(path: Path) -> int:
    match = _PART.match(path.stem)
    return int(match[2]) if match else 0


def read(source: Source) -> Items:
    reader = TableReader(source)
    yield from reader.items()


class TableReader:
    """One run's table, or its parts: each further file is another start."""

    def __init__(self, source: Source) -> None:
        self._source = source
        first = source.files[0]
        match = _PART.match(first.stem)
        self._described = describe(source.companions)
        self._header: dict[str, Any] = {}
        self._at = 0.0
        self._runs = RowRuns(
            first,
            name=match[1] if match else first.stem,
            names=source.columnar.rename,
            known=self._known,
            facts=self._facts,
        )
        self._num_problems = 0
        self._path = first
        self._fields: Fields = {}
        self._numeric: set[str] = set(source.columnar.values)
        self._odd: dict[str, tuple[int, Any]] = {}  # column without a number yet -> line and value of its first text

    def items(self) -> Items:
        yield from self._described.problems
        for path in self._source.files:
            yield from self._file(path)
        yield from self._runs.end()

    def _file(self, path: Path) -> Items:
        column, first = "", True
        self._path, self._odd = path, {}
        rows = (
            _json_rows(path, self._source.growing) if path.suffix in _JSON else _table_rows(path, self._source.growing)
        )
        for number, fields in rows:
            if isinstance(fields, Problem):
                yield from self._report(fields)
                continue
            column = column or _step_column(fields, self._source.columnar)
            step = _whole(fields.get(column)) if column else None
            if step is None:
                if first:
                    self._header |= fields
                    continue
                yield from self._report(_problem(path, number, f"no whole step in column {column or 'step'}"))
                continue
            yield from self._row(number, step, column, fields, restarted=first)
            first = False
        if self._num_problems > _MAX_PROBLEMS:
            more = f"{self._num_problems - _MAX_PROBLEMS} more lines like these"
            yield Problem(file=str(path), position="the file", what=more)
            self._num_problems = 0

    def _row(self, number: int, step: int, column: str, fields: Fields, *, restarted: bool) -> Items:
        columnar = self._source.columnar
        time = columnar.time or next((name for name in TIMES if name in fields), "")
        moment = number_of(fields.get(time))
        self._at = moment if moment is not None and 1e9 < moment < 4e9 else 0.0
        wanted = [name for name in columnar.values or fields if name not in (column, time)]
        values = {name: value for name in wanted if (value := number_of(fields.get(name))) is not None}
        self._numeric.update(values)
        if len(values) < len(wanted) or self._odd:
            yield from self._look_at_others(number, fields, values, wanted)
        if values:
            self._fields = fields
            is_eval = all(_EVAL.match(name) for name in values)
            yield from self._runs.row(step, values, is_eval=is_eval, restarted=restarted)

    def _look_at_others(
        self, number: int, fields: Fields, values: Mapping[str, float], wanted: Sequence[str]
    ) -> Iterator[Problem]:
        """Where a column has numbers, what else stands in it was meant as one."""
        for name in wanted:
            if name not in values and not is_nothing(fields.get(name)):
                self._odd.setdefault(name, (number, fields[name]))
        for name in sorted(self._odd.keys() & self._numeric):
            line, value = self._odd.pop(name)
            yield from self._report(_problem(self._path, line, f"field {name[:80]}: {value!r:.80} is no number"))

    def _report(self, problem: Problem) -> Iterator[Problem]:
        self._num_problems += 1
        if self._num_problems <= _MAX_PROBLEMS:
            yield problem

    def _known(self) -> Known:
        config = {**flat(self._header), **self._described.config}
        filled = {name: value for name, value in self._fields.items() if not is_nothing(value)}
        return Known(
            config=config,
            environment=self._described.environment,
            started_at=self._at,
            first_row=json.dumps(filled, default=str, sort_keys=True),
            file=str(self._path),
        )

    def _facts(self) -> Iterator[Fact]:
        if self._described.about:
            title = "described by a file beside the log"
            yield Fact(step=0, kind=TimelineKind.NOTE, title=title, detail=dict(self._described.about))


def number_of(value: Any) -> float | None:
    """A number, also as text; None for everything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _float(value)
    if not isinstance(value, str) or not value:
        return None
    word = value.strip().lower()
    if word.lstrip("+-") in _WORDS:
        return -_WORDS[word.lstrip("+-")] if word.startswith("-") else _WORDS[word.lstrip("+-")]
    return _float(word) if re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", word) else None


def is_nothing(value: Any) -> bool:
    """An empty cell, or a word that says that there is no value."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _whole(value: Any) -> int | None:
    """A step: a whole number that fits 64 bits."""
    if isinstance(value, int) and not isinstance(value, bool):
        step = value
    else:
        number = number_of(value)
        if number is None or not number.is_integer():
            return None
        step = int(number)
    return step if abs(step) < 2**63 else None


def _step_column(fields: Fields, columnar: Columnar) -> str:
    """The declared one, else the first known one that holds a whole number; "" without any."""
    if columnar.step:
        return columnar.step if columnar.step in fields else ""
    return next((name for name in STEPS if _whole(fields.get(name)) is not None), "")


def _first_fields(path: Path) -> dict[str, Any]:
    """The fields of the first rows, for recognising the step."""
    lines = [line for line in sample(path, 1 << 18) if line.strip()]
    if path.suffix in _TABLE:
        rows = csv.DictReader(lines[:2], delimiter=_TABLE[path.suffix])
        return next(iter(rows), {})
    found: dict[str, Any] = {}
    for line in lines[:20]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            found = slashed(row) | found
    return found


def slashed(fields: Fields, prefix: str = "") -> dict[str, Any]:
    """Nested fields by their path with slashes, as series are named."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        found |= slashed(value, f"{prefix}{key}/") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _json_rows(path: Path, growing: bool) -> Iterator[tuple[int, Fields | Problem]]:
    for line in read_lines(path, growing=growing):
        if isinstance(line, Problem):
            yield 0, line
        elif line.text.strip():
            try:
                row = json.loads(line.text)
            except ValueError as error:
                yield line.number, _problem(path, line.number, f"no JSON: {error}")
                continue
            what = f"a JSON {type(row).__name__}, no object"
            yield line.number, slashed(row) if isinstance(row, dict) else _problem(path, line.number, what)


def _table_rows(path: Path, growing: bool) -> Iterator[tuple[int, Fields | Problem]]:
    """A header that comes again, wider than before, takes over."""
    header: list[str] = []
    left_out: list[Problem] = []
    number = 0

    def texts() -> Iterator[str]:
        nonlocal number
        for line in read_lines(path, growing=growing):
            if isinstance(line, Problem):
                left_out.append(line)
            else:
                number = line.number
                yield line.text

    for cells in _cells(csv.reader(texts(), delimiter=_TABLE[path.suffix])):
        yield from ((0, left_out.pop()) for _ in list(left_out))
        if isinstance(cells, str):
            yield number, _problem(path, number, cells)
        elif not header or (cells and cells[0] == header[0]):
            header = cells
        elif len(cells) > len(header):
            yield number, _problem(path, number, f"{len(cells)} cells under {len(header)} columns")
        elif cells:
            yield number, dict(zip(header, cells, strict=False))
    yield from ((0, problem) for problem in left_out)


def _cells(reader: Iterator[list[str]]) -> Iterator[list[str] | str]:
    """The cells of each row, or what is wrong with it."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield f"no row of a table: {error}"


def _problem(path: Path, number: int, what: str) -> Problem:
    return Problem(file=str(path), position=f"line {number}", what=what[:300])


FORMAT = Format(name="table", find=find, read=read)
