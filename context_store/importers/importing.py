"""Finds what lies under a path, format by format, and imports it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from context_store.database import Database
from context_store.importers import refusals
from context_store.importers.formats import Columnar, Format, Source, Tree, head
from context_store.importers.registry import FORMATS, remote
from context_store.importers.report import Refused, Report, SourceReport
from context_store.importers.sinks import Counting, Pouring, Sink
from context_store.importers.store_sink import StoreSink
from contracts.errors import DatabaseUnavailable, DiskFull, LatheError, LogFormatError, NotFound, UserInputError

Tell = Callable[[str], None]
_FOREIGN = (SQLAlchemyError, psycopg.Error, OSError, ValueError, LookupError, ArithmeticError, RecursionError)
_SKIPPED_FOLDERS = {".git", "__pycache__", "node_modules", ".venv"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """`project`: instead of what the sources say.

    `following`: the sources still grow, so a run without an end counts as running.
    """

    actor: str
    project: str | None = None
    following: bool = False


@dataclass(frozen=True, kw_only=True)
class Found:
    """A source with its format."""

    format: Format
    source: Source


def discover(path: str, columnar: Columnar | None = None) -> tuple[list[Found], list[Refused]]:
    """The sources under a path or uri, and the files that are none. Raises NotFound, UserInputError."""
    if "://" in path and not path.startswith("file://"):
        return [Found(format=remote(path), source=Source(files=(), uri=path))], []
    place = Path(os.path.abspath(Path(path.removeprefix("file://")).expanduser()))
    tree = replace(_tree(place), columnar=columnar or Columnar())
    head.cache_clear()
    found: list[Found] = []
    for each in FORMATS:
        for source in each.find(tree):
            found.append(Found(format=each, source=source))
            tree = tree.without(source.claimed)
    return found, [refusals.explain(file) for file in tree.files]


def check(found: list[Found], *, project: str | None = None, url: str = "") -> Report:
    """A dry run: read everything, store nothing. With the url of a store also what that would refuse."""
    database = Database(url, clock=lambda: 0.0) if url else None
    try:
        sources = [_pour(each, Counting(database), project, lambda _: None) for each in found]
    finally:
        if database is not None:
            database.close()
    return Report(sources=sources, refused=[])


def store(found: list[Found], url: str, options: Options, *, clock: Callable[[], float], tell: Tell) -> Report:
    """Import into the store at this url; what is there already adds nothing.

    A source that fails is named in the report and does not stop the others. Raises DatabaseUnavailable and DiskFull.
    """
    database = Database(url, clock=clock)
    try:
        reports = []
        for each in found:
            sink = StoreSink(database, how=each.format.name, actor=options.actor, following=options.following)
            growing = replace(each, source=replace(each.source, growing=options.following))
            reports.append(_pour(growing, sink, options.project, tell))
    finally:
        database.close()
    return Report(sources=reports, refused=[])


def fingerprint(found: Found) -> tuple[tuple[str, int, int], ...]:
    """Changes when a file of the source does."""
    states = [(path, path.stat()) for path in found.source.claimed if path.exists()]
    return tuple((str(path), state.st_size, state.st_mtime_ns) for path, state in states)


def _pour(found: Found, sink: Sink, project: str | None, tell: Tell) -> SourceReport:
    pouring = Pouring(sink, project_id=project, tell=tell)
    files = [str(path) for path in found.source.claimed] or [found.source.uri]
    failure: LatheError | None = None
    try:
        pouring.pour(found.format.read(found.source))
    except (DatabaseUnavailable, DiskFull):
        raise
    except LatheError as error:
        failure = error
    except _FOREIGN as error:
        what = f"{files[0]} cannot be imported: {type(error).__name__}: {error}"[:500]
        failure = LogFormatError(what, remedy="please report this with the file; everything else was imported")
    if failure is not None:
        with suppress(UserInputError, NotFound, *_FOREIGN):
            pouring.end()
    return SourceReport(
        format=found.format.name, files=files, runs=pouring.runs, problems=pouring.problems, failure=failure
    )


def _tree(path: Path) -> Tree:
    if not path.exists():
        raise NotFound(f"{path} does not exist", remedy="give the path of a log, or of a folder with logs")
    files = [path] if path.is_file() else sorted(_walk(path))
    return Tree(root=path, files=tuple(files))


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in names:
            path = Path(place) / name
            if path.is_file():
                yield path
