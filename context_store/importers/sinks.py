"""Where the items of a source go: only counted (dry run), or into the store (`store_sink`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from context_store.dictionary import MAX_NAME_CHARACTERS
from context_store.importers.items import (
    Column,
    Columns,
    Ended,
    Fact,
    FoundNegative,
    FoundRun,
    FoundSegment,
    Items,
    Problem,
)
from context_store.importers.report import RunReport
from context_store.importers.series_names import Renaming

Detail = Fact | FoundNegative | Ended


class Sink(Protocol):
    """Takes what belongs to one run, in order."""

    def begin_run(self, run: FoundRun, report: RunReport) -> None: ...

    def begin_segment(self, segment: FoundSegment) -> None: ...

    def write(self, columns: Mapping[str, Column]) -> int | None:
        """By names of the store. Returns how many points are new, None when nobody asked the store."""
        ...

    def take(self, item: Detail) -> None: ...

    def end_run(self) -> None: ...


class Counting:
    """A dry run: nothing is stored."""

    def begin_run(self, run: FoundRun, report: RunReport) -> None: ...

    def begin_segment(self, segment: FoundSegment) -> None: ...

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
        self.runs: list[RunReport] = []
        self.problems: list[Problem] = []

    def pour(self, items: Items) -> None:
        for item in items:
            if isinstance(item, Problem):
                self.problems.append(item)
            elif isinstance(item, FoundRun):
                self._end_run()
                self._begin_run(item)
            else:
                self._take(item, self.runs[-1])
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

    def _take(self, item: FoundSegment | Columns | Detail, report: RunReport) -> None:
        match item:
            case FoundSegment():
                report.num_segments = max(report.num_segments, item.number + 1)
                self._sink.begin_segment(item)
            case Columns():
                self._write(item, report)
            case Fact():
                report.num_facts += 1
                self._sink.take(item)
            case FoundNegative():
                report.num_negatives += 1
                self._sink.take(item)
            case Ended():
                report.state = item.state
                self._sink.take(item)

    def _write(self, item: Columns, report: RunReport) -> None:
        named: dict[str, Column] = {}
        for original, column in item.columns.items():
            name = self._rename(original)
            if not name or len(name) > MAX_NAME_CHARACTERS:
                self._refuse_name(name, report)
            elif len(column[0]):
                named[name] = column
        if not named:
            return
        report.see(named)
        new = self._sink.write(named)
        if new is not None:
            report.num_new = (report.num_new or 0) + new

    def _refuse_name(self, name: str, report: RunReport) -> None:
        what = f"the series {name[:40]!r} has no name of 1 to {MAX_NAME_CHARACTERS} characters; it was left out"
        problem = Problem(file=report.origin, position=f"run {report.name}", what=what)
        if problem not in self.problems:
            self.problems.append(problem)


def slug(text: str) -> str:
    """Lower-case words with dashes: how ids begin."""
    return re.sub(r"[^\w.]+", "-", text.lower()).strip("-.")[:60] or "unnamed"


def run_id_of(project_id: str, name: str, key: str) -> str:
    """Readable, and the same for the same source however often it is imported."""
    digest = hashlib.sha256(f"{project_id}\0{key}".encode("utf-8", "backslashreplace")).hexdigest()
    return f"{slug(name)}-{digest[:8]}"
