"""Text logs, read line by line in bounded memory: what a training printed on its console or into its log file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from context_store.importers.companions import Description, beside, describe
from context_store.importers.dialects import DIALECTS, Dialect, Row, without_rank
from context_store.importers.formats import Format, Source, Tree
from context_store.importers.items import Fact, Items, Problem
from context_store.importers.lines import read_lines, sample
from context_store.importers.log_facts import LogFacts
from context_store.importers.row_runs import Known, RowRuns
from contracts.enums import TimelineKind

_SUFFIXES = {".log", ".txt", ".out", ".err", ".stdout", ".stderr", ""}
_MIN_ROWS = 2


def find(tree: Tree) -> list[Source]:
    found = []
    for path in tree.files:
        if (path.suffix.lower() in _SUFFIXES or path == tree.root) and dialect_of(path) is not None:
            found.append(Source(files=(path,), companions=beside(path)))
    return found


def read(source: Source) -> Items:
    path = source.files[0]
    dialect = dialect_of(path)
    assert dialect is not None, "found by it"
    described = describe(source.companions)
    yield from described.problems
    yield from LogReader(path, dialect, described).items(growing=source.growing)


def dialect_of(path: Path) -> Dialect | None:
    """The dialect in which the beginning of the file has the most steps."""
    counts: Counter[str] = Counter()
    by_name = {dialect.name: dialect for dialect in DIALECTS}
    for line in sample(path):
        _, text = without_rank(line)
        for name, dialect in by_name.items():
            if dialect.parse(text) is not None:
                counts[name] += 1
                break
    if not counts or counts.most_common(1)[0][1] < _MIN_ROWS:
        return None
    return by_name[counts.most_common(1)[0][0]]


class LogReader:
    """One file."""

    def __init__(self, path: Path, dialect: Dialect, described: Description) -> None:
        self._path = path
        self._dialect = dialect
        self._described = described
        self._facts = LogFacts()
        self._runs = RowRuns(
            path, names=dialect.names, known=self._known, facts=self._code_facts, closing=self._missing_facts
        )
        self._row_text = ""
        self._rank: int | None = None
        self._seen: set[str] = set()
        self._missing: dict[str, list[int]] = {}

    def items(self, *, growing: bool) -> Items:
        for line in read_lines(self._path, growing=growing):
            if isinstance(line, Problem):
                yield line
                continue
            rank, text = without_rank(line.text)
            row = self._dialect.parse(text)
            if row is None:
                self._facts.look(line.text)
            elif row.values and row.step < 2**63:
                self._row_text = line.text
                yield from self._row(row, rank)
        yield from self._runs.end()

    def _row(self, row: Row, rank: int | None) -> Items:
        """The first rank that prints a step speaks for the run; others get series of their own."""
        if self._runs.num_runs == 0:
            self._rank = rank
        if rank is not None and rank != self._rank:
            yield from self._runs.more(row.step, {f"{name}@rank={rank}": v for name, v in row.values.items()})
            return
        restarted = self._facts.restarted
        yield from self._runs.row(row.step, row.values, is_eval=row.is_eval, total=row.total, restarted=restarted)
        self._facts.settle()
        self._watch_missing(row)

    def _known(self) -> Known:
        return Known(
            config={**self._facts.config, **self._described.config},
            environment={**self._facts.environment, **self._described.environment},
            code_version=self._facts.commit,
            checkpoint=self._facts.checkpoint,
            checkpoint_step=self._facts.checkpoint_step,
            first_row=self._row_text,
        )

    def _code_facts(self) -> Iterator[Fact]:
        if self._facts.source_sha256:
            digest = self._facts.source_sha256
            title = f"the log embeds its source (sha256 {digest[:12]})"
            yield Fact(step=0, kind=TimelineKind.CODE, title=title, detail={"source_sha256": digest})
        if self._described.about:
            title = "described by a file beside the log"
            yield Fact(step=0, kind=TimelineKind.NOTE, title=title, detail=dict(self._described.about))

    def _watch_missing(self, row: Row) -> None:
        """Some trainers leave a field out when it is NaN or zero: its absence is a signal."""
        if row.is_eval or not self._dialect.lasting:
            return
        here = self._dialect.lasting & row.values.keys()
        for name in self._seen - here:
            self._missing.setdefault(name, []).append(row.step)
        self._seen |= here

    def _missing_facts(self) -> Iterator[Fact]:
        for name, steps in sorted(self._missing.items()):
            title = f"{name} is missing on {len(steps)} lines: it is left out when it is NaN or zero"
            yield Fact(step=steps[0], kind=TimelineKind.NOTE, title=title, detail={"steps": steps[:100]})
        self._missing, self._seen = {}, set()


FORMAT = Format(name="text log", find=find, read=read)
