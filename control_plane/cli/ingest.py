"""`lathe ingest`: logs and tracker files that exist become runs like any other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import LogFormatError, UserInputError
from control_plane.cli.session import Json, console, notes, opened, print_json, print_table

if TYPE_CHECKING:
    from context_store.importers import Columnar, Found, Refused, Report
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
        _show(check(found), refused, as_json=as_json)
        return
    with opened() as lathe:
        if follow:
            _follow(lathe, path, columnar, project, as_json=as_json)
        else:
            _show(_store(lathe, found, project, following=False, quiet=as_json), refused, as_json=as_json)


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
    try:
        while True:
            began = time.monotonic()
            found, refused = discover(path, columnar)
            changed = [each for each in found if each.source.uri or known.get(each.source.claimed) != fingerprint(each)]
            known |= {each.source.claimed: fingerprint(each) for each in changed}
            if changed:
                _show(_store(lathe, changed, project, following=True, quiet=as_json), [], as_json=as_json)
            time.sleep(max(_MIN_PAUSE_S, _REST_PER_WORK * (time.monotonic() - began)))
    except KeyboardInterrupt:
        found, refused = discover(path, columnar)
        _show(_store(lathe, found, project, following=False, quiet=True), refused, as_json=as_json)


def _show(report: Report, refused: Sequence[Refused], *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(report, refused))
        return
    rows = [
        (run.run_id, run.project_id, run.num_segments, _steps(run), run.num_points, _new(run.num_new), run.state or "?")
        for run in report.runs
    ]
    columns = ("run", "project", "segments", "steps", "points", "new", "ended")
    print_table(columns, rows, empty="No run in it.")
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
    if report.runs and report.runs[0].num_new is not None:
        console().print(f"  what went wrong in one: lathe detect {report.runs[0].run_id}", markup=False)


def _steps(run: Any) -> str:
    return "" if run.first_step is None else f"{run.first_step}-{run.last_step}"


def _new(count: int | None) -> object:
    return "(dry run)" if count is None else count


def _as_json(report: Report, refused: Sequence[Refused]) -> dict[str, Any]:
    sources = [
        {
            "format": source.format,
            "files": list(source.files),
            "runs": [vars(run) | {"series": sorted(run.series)} for run in source.runs],
            "problems": [_plain(problem) for problem in source.problems],
        }
        for source in report.sources
    ]
    return {"sources": sources, "refused": [_plain(each) for each in refused]}


def _plain(value: Any) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(value)
