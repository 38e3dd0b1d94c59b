"""`lathe ingest`: logs and tracker files that exist become runs like any other."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import LogFormatError, UserInputError
from control_plane.cli.session import Json, console, notes, opened, print_json, settings

if TYPE_CHECKING:
    from context_store.importers import Columnar, Found, Refused, Report, RunReport, SourceReport
    from control_plane.wiring import Lathe

_MIN_PAUSE_S = 2.0
_REST_PER_WORK = 5.0  # following costs at most a sixth of one core
_MAX_NAMED = 20


def ingest(
    path: Annotated[str, typer.Argument(metavar="PATH|URI", help="A log, a folder of logs, or a tracker's address.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read everything, store nothing.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on while the files grow, until Ctrl-C.")] = False,
    project: Annotated[str | None, typer.Option(help="Project id (default: what the source says).")] = None,
    step: Annotated[str, typer.Option(help="Tables, JSON lines: the step column.")] = "",
    time_column: Annotated[str, typer.Option("--time", help="Tables, JSON lines: the column of unix seconds.")] = "",
    column: Annotated[
        list[str] | None, typer.Option(help="Tables, JSON lines: NAME or NAME=SERIES; repeat it. Default: all numbers.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Import what a training already wrote. Importing again adds only what is new."""
    from context_store.importers import check, discover

    if dry_run and follow:
        raise UserInputError("--dry-run and --follow exclude each other", remedy="leave one of them out")
    columnar = _columnar(step, time_column, column or [])
    found, refused = discover(path, columnar)
    _refuse_nothing(path, found, refused)
    if dry_run:
        with _store_url() as url:
            report = check(found, project=project, url=url)
        _show(report, refused, as_json=as_json)
        _raise_failures(report)
        return
    with opened() as lathe:
        if follow:
            _follow(lathe, path, columnar, project, as_json=as_json)
        else:
            report = _store(lathe, found, project, following=False, quiet=as_json)
            _show(report, refused, as_json=as_json)
            _raise_failures(report)


@contextmanager
def _store_url() -> Iterator[str]:
    """Of the store that is there; "" without one, which a dry run does not make."""
    loaded = settings()
    if not loaded.database_url and not loaded.postgres_folder.exists():
        yield ""
        return
    with opened() as lathe:
        yield lathe.store.url


def _columnar(step: str, time_column: str, columns: Sequence[str]) -> Columnar:
    from context_store.importers import Columnar

    pairs = [each.partition("=") for each in columns]
    rename = {name: ours for name, _, ours in pairs if ours}
    return Columnar(step=step, time=time_column, values=tuple(name for name, _, _ in pairs), rename=rename)


def _refuse_nothing(path: str, found: Sequence[Found], refused: Sequence[Refused]) -> None:
    """Raises LogFormatError when there is nothing to import."""
    if found:
        return
    if len(refused) == 1:
        raise LogFormatError(f"{refused[0].file}: {refused[0].reason}", remedy=refused[0].remedy)
    raise LogFormatError(
        f"{path}: none of its {len(refused)} files is a training log that we know",
        remedy="give a log, a tracker's folder, or JSON lines or CSV with a step column (--step NAME)",
    )


def _store(lathe: Lathe, found: Sequence[Found], project: str | None, *, following: bool, quiet: bool) -> Report:
    from context_store.importers import Options, store

    options = Options(actor=lathe.settings.actor, project=project, following=following)
    with _told(quiet=quiet) as tell:
        return store(list(found), lathe.store.url, options, clock=time.time, tell=tell)


@contextmanager
def _told(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """The run that is being read, on a terminal."""
    terminal = notes()
    if quiet or not terminal.is_terminal:
        yield lambda _: None
        return
    with terminal.status("reading ...") as status:
        yield lambda name: status.update(f"reading {name}")


def _follow(lathe: Lathe, path: str, columnar: Columnar, project: str | None, *, as_json: bool) -> None:
    """Import again whatever changed. A run that the source does not end is running until Ctrl-C."""
    from context_store.importers import discover, fingerprint

    known: dict[Any, Any] = {}
    pause = 0.0
    with _until_interrupted() as stop:
        while not stop.wait(pause):
            began = time.monotonic()
            found, refused = discover(path, columnar)
            changed = [each for each in found if each.source.uri or known.get(each.source.claimed) != fingerprint(each)]
            known |= {each.source.claimed: fingerprint(each) for each in changed}
            if changed:
                report = _store(lathe, changed, project, following=True, quiet=as_json)
                _show(report, [], as_json=as_json)
                _tell_failures(report.failures)
            pause = max(_MIN_PAUSE_S, _REST_PER_WORK * (time.monotonic() - began))
    found, refused = discover(path, columnar)
    report = _store(lathe, found, project, following=False, quiet=True)
    _show(report, refused, as_json=as_json)
    _raise_failures(report)


@contextmanager
def _until_interrupted() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C, which an exception could lose in a callback; the second one breaks off."""
    stop, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _show(report: Report, refused: Sequence[Refused], *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(report, refused))
        return
    if not report.runs and not report.failures:
        console().print("No run in it.", markup=False)
    for project in dict.fromkeys(run.project_id for run in report.runs):
        _print_runs(project, [run for run in report.runs if run.project_id == project])
    terminal = notes()
    for problem in report.problems[:_MAX_NAMED]:
        terminal.print(
            f"not imported: {problem.file}, {problem.position}: {problem.what}", markup=False, soft_wrap=True
        )
    for each in refused[:_MAX_NAMED]:
        terminal.print(f"no log: {each.file}: {each.reason}", markup=False, soft_wrap=True)
    left = max(0, len(report.problems) - _MAX_NAMED) + max(0, len(refused) - _MAX_NAMED)
    if left:
        terminal.print(f"and {left} more; --json names all", markup=False)
    stored = [run for run in report.runs if run.num_new is not None and run.num_points]
    if stored:
        console().print(f"  what went wrong in one: lathe detect {stored[0].run_id}", markup=False)


def _raise_failures(report: Report) -> None:
    """Raises the error of the first source that failed, or LogFormatError for runs that were refused: the others are
    imported, but the command did not succeed.
    """
    _tell_failures(report.failures[1:])
    for failure in (source.failure for source in report.failures):
        assert failure is not None, "chosen by it"
        raise failure
    refused = [run for run in report.runs if run.num_segments == 0]
    if refused:
        raise LogFormatError(
            f"{len(refused)} of {len(report.runs)} runs were refused, {refused[0].name} first",
            remedy="the lines above say why, and what to import instead",
        )


def _tell_failures(sources: Sequence[SourceReport]) -> None:
    for source in sources:
        notes().print(f"not imported: {source.files[0]}: {source.failure}", markup=False, soft_wrap=True)


def _print_runs(project: str, runs: Sequence[RunReport]) -> None:
    """Readable at 80 columns: only the id of a run may break."""
    from rich.table import Table

    is_dry = all(run.num_new is None for run in runs)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", overflow="fold")
    for column in ("starts", "steps", "points", *(() if is_dry else ("new",))):
        table.add_column(column, no_wrap=True, justify="right")
    table.add_column("ended", no_wrap=True)
    for run in runs:
        steps = "" if run.first_step is None else f"{run.first_step}-{run.last_step}"
        counts = (run.num_segments, steps, run.num_points, *(() if is_dry else (run.num_new or 0,)))
        table.add_row(run.run_id, *map(str, counts), run.state or "?")
    console().print(f"project {project}" + (" (dry run: nothing is stored)" if is_dry else ""), markup=False)
    console().print(table, markup=False)
    for run in runs:
        for number, what in (
            (run.num_negatives, "negative results: lathe negatives search"),
            (run.num_scores, "scores, ranked once their checkpoint is known: lathe evals"),
        ):
            if number:
                console().print(f"  {run.run_id}: {number} {what}", markup=False, soft_wrap=True)


def _as_json(report: Report, refused: Sequence[Refused]) -> dict[str, Any]:
    sources = [
        {
            "format": source.format,
            "files": list(source.files),
            "runs": [vars(run) | {"series": sorted(run.series)} for run in source.runs],
            "problems": [_plain(problem) for problem in source.problems],
            "failure": None if source.failure is None else vars(source.failure),
        }
        for source in report.sources
    ]
    return {"sources": sources, "refused": [_plain(each) for each in refused]}


def _plain(value: Any) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(value)
