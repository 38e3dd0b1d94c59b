"""Where the items of a source go: only counted (dry run), or into the store (`store_sink`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from context_store.database import Database
from context_store.dictionary import MAX_NAME_CHARACTERS, is_name
from context_store.importers.items import (
    Column,
    Columns,
    Ended,
    Fact,
    FoundNegative,
    FoundRun,
    FoundScore,
    FoundSegment,
    Items,
    Problem,
)
from context_store.importers.report import RunReport
from context_store.importers.series_names import Renaming
from context_store.importers.starts import Starts
from contracts.errors import UserInputError

Detail = Fact | FoundNegative | FoundScore | Ended


class Sink(Protocol):
    """Takes what belongs to one run, in order."""

    def begin_run(self, run: FoundRun, report: RunReport) -> None: ...

    def begin_segment(self, segment: FoundSegment) -> None:
        """Raises UserInputError for a start that must not be stored; what belongs to it is left out."""
        ...

    def write(self, columns: Mapping[str, Column]) -> int | None:
        """By names of the store. Returns how many points are new, None when nobody asked the store."""
        ...

    def take(self, item: Detail) -> None: ...

    def end_run(self) -> None: ...


class Counting:
    """A dry run: nothing is stored. With a database it refuses the starts that the import would refuse."""

    def __init__(self, database: Database | None) -> None:
        self._database = database
        self._starts: Starts | None = None

    def begin_run(self, run: FoundRun, report: RunReport) -> None:
        self._origin = run.origin
        if self._database is not None:
            with self._database.begin() as connection:
                self._starts = Starts(connection, report.run_id)

    def begin_segment(self, segment: FoundSegment) -> None:
        if self._starts is not None:
            self._starts.check(segment, segment.origin or self._origin)

    def write(self, columns: Mapping[str, Column]) -> int | None:
        return None

    def take(self, item: Detail) -> None: ...

    def end_run(self) -> None: ...


class Pouring:
    """Gives the items of one source to a sink and keeps count."""

    def __init__(self, sink: Sink, *, project_id: str | None, tell: Callable[[str], None]) -> None:
        self._sink = sink
        self._project_id = project_id
        self._tell = tell
        self._rename = Renaming({})
        self._is_left_out = False  # what comes belongs to a start that the sink refused
        self.runs: list[RunReport] = []
        self.problems: list[Problem] = []

    def pour(self, items: Items) -> None:
        for item in items:
            if isinstance(item, Problem):
                self.problems.append(item)
            elif isinstance(item, FoundRun):
                self._end_run()
                self._begin_run(item)
            elif isinstance(item, FoundSegment):
                self._begin_segment(item, self.runs[-1])
            elif not self._is_left_out:
                self._take(item, self.runs[-1])
        self.end()

    def end(self) -> None:
        """After the last item; also after an error, so that what was taken before it is whole."""
        self._end_run()

    def _begin_run(self, run: FoundRun) -> None:
        project = self._project_id or slug(run.project)
        run_id = run_id_of(project, run.name, run.key)
        self._rename = Renaming(run.names)
        self.runs.append(RunReport(run_id=run_id, name=run.name, project_id=project, origin=run.origin))
        self._sink.begin_run(run, self.runs[-1])
        self._tell(f"{run.name} ({len(self.runs)} runs)" if len(self.runs) > 1 else run.name)

    def _end_run(self) -> None:
        if self.runs:
            self.runs[-1].renamed = self._rename.changed
            self._sink.end_run()

    def _begin_segment(self, segment: FoundSegment, report: RunReport) -> None:
        try:
            self._sink.begin_segment(segment)
        except UserInputError as error:
            self._is_left_out = True
            what = f"{error.message}. {error.remedy[0].upper()}{error.remedy[1:]}"
            self._add_problem(segment.origin or report.origin, f"run {report.name}", what)
            return
        self._is_left_out = False
        report.num_segments = max(report.num_segments, segment.number + 1)

    def _take(self, item: Columns | Detail, report: RunReport) -> None:
        match item:
            case Columns():
                self._write(item, report)
            case Fact():
                report.num_facts += 1
                self._sink.take(item)
            case FoundNegative():
                report.num_negatives += 1
                self._sink.take(item)
            case FoundScore():
                report.num_scores += 1
                self._sink.take(item)
            case Ended():
                report.state = item.state
                self._sink.take(item)

    def _write(self, item: Columns, report: RunReport) -> None:
        named: dict[str, Column] = {}
        for original, column in item.columns.items():
            name = self._rename(original)
            if not is_name(name):
                what = f"the series {name[:40]!r} has no name of 1 to {MAX_NAME_CHARACTERS} characters; it was left out"
                self._add_problem(report.origin, f"run {report.name}", what)
            elif len(column[0]):
                named[name] = column
        if not named:
            return
        report.see(named)
        new = self._sink.write(named)
        if new is not None:
            report.num_new = (report.num_new or 0) + new

    def _add_problem(self, file: str, position: str, what: str) -> None:
        problem = Problem(file=file, position=position, what=what)
        if problem not in self.problems:
            self.problems.append(problem)


def slug(text: str) -> str:
    """Lower-case words with dashes: how ids begin."""
    return re.sub(r"[^\w.]+", "-", text.lower()).strip("-.")[:60] or "unnamed"


def run_id_of(project_id: str, name: str, key: str) -> str:
    """Readable, and the same for the same source however often it is imported."""
    digest = hashlib.sha256(f"{project_id}\0{key}".encode("utf-8", "backslashreplace")).hexdigest()
    return f"{slug(name)}-{digest[:8]}"
