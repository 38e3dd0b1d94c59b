"""`lathe backend`: connect a training that is not Lathe's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control_plane.cli.session import Json, console, notes, opened, print_json, print_table, settings

if TYPE_CHECKING:
    from context_store import Store
    from context_store.records import Project
    from control_plane.backends.command_probe import ProbeReport
    from control_plane.backends.command_registry import Registered, Registry
    from control_plane.wiring import Lathe

app = typer.Typer(help="Connect a training that is not Lathe's own.", no_args_is_help=True)
ProjectOption = Annotated[Path | None, typer.Option(help="Folder under git (default: that of FILE).")]
LastCommit = Annotated[bool, typer.Option(help="Take the last commit although there are uncommitted changes.")]
_SHOWN = 8  # series named in a report


@app.command()
def add(
    file: Annotated[Path, typer.Argument(help="The backend's spec, a TOML file.")],
    project: ProjectOption = None,
    last_commit: LastCommit = False,
    as_json: Json = False,
) -> None:
    """Check the spec by a dry run of the project, and let the project be trained by it from now on."""
    from control_plane.projects import connect_project

    registered = _registry().read(file)
    folder = (project or file.resolve().parent).expanduser().resolve()
    with opened() as lathe:
        report = _probe(lathe, registered, folder, last_commit=last_commit)
        _registry().make_present(registered)
        connect_project(lathe.store, folder, registered)
        for other in _projects_of(lathe.store, registered.spec.name):
            connect_project(lathe.store, Path(other.path), registered)
    _print_report(report, as_json=as_json)
    if not as_json:
        console().print(f"  train with it: lathe train {folder}", markup=False, soft_wrap=True)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """The backends that were added, and the projects they train."""
    with opened() as lathe:
        found = [
            {
                "name": name,
                "version": _registry().get(name).version,
                "projects": [each.path for each in _projects_of(lathe.store, name)],
            }
            for name in _registry().names()
        ]
    if as_json:
        print_json(found)
        return
    rows = [(each["name"], each["version"], ", ".join(each["projects"])) for each in found]
    print_table(("name", "version", "projects"), rows, empty="None but Lathe's own trainer. Add one: lathe backend add")


@app.command()
def show(name: Annotated[str, typer.Argument(help="Name of a backend.")], as_json: Json = False) -> None:
    """The spec as it was added."""
    registered = _registry().get(name)
    if as_json:
        print_json({"version": registered.version, "spec": registered.spec.model_dump(mode="json")})
    else:
        console().print(registered.text, markup=False, soft_wrap=True)


@app.command()
def remove(name: Annotated[str, typer.Argument(help="Name of a backend.")], as_json: Json = False) -> None:
    """Forget a backend. Projects that it trained can be trained again once they are connected with another one."""
    from control_plane.projects import disconnect_project

    with opened() as lathe:
        projects = _projects_of(lathe.store, name)
        _registry().remove(name)
        for project in projects:
            disconnect_project(lathe.store, project)
    if as_json:
        print_json({"removed": name, "projects": [each.path for each in projects]})
    else:
        left = ", ".join(each.path for each in projects)
        console().print(f"removed {name}" + (f"; no longer connected: {left}" if left else ""), markup=False)


@app.command()
def probe(
    name: Annotated[str, typer.Argument(help="Name of a backend.")],
    project: Annotated[Path | None, typer.Option(help="Folder under git (default: the project it trains).")] = None,
    last_commit: LastCommit = False,
    as_json: Json = False,
) -> None:
    """Repeat the dry run: a few steps twice, and once more from a checkpoint."""
    from contracts.errors import UserInputError

    registered = _registry().get(name)
    with opened() as lathe:
        folders = [project] if project else [Path(each.path) for each in _projects_of(lathe.store, name)]
        if len(folders) != 1:
            raise UserInputError(f"{name} trains {len(folders)} projects", remedy="name one with --project FOLDER")
        report = _probe(lathe, registered, folders[0], last_commit=last_commit)
    _print_report(report, as_json=as_json)


def _registry() -> Registry:
    from control_plane.backends.command_registry import Registry

    return Registry(settings().backends_folder)


def _projects_of(store: Store, name: str) -> list[Project]:
    return [each for each in store.projects.list() if each.backend == name]


def _probe(lathe: Lathe, registered: Registered, folder: Path, *, last_commit: bool) -> ProbeReport:
    from control_plane.backends.command_probe import probe as dry_run
    from control_plane.git import head_commit
    from control_plane.worktrees import CodeVersion

    commit = head_commit(folder, allow_uncommitted=last_commit)
    tree = lathe.worktrees.materialise(folder, CodeVersion(base=commit))
    _registry().keep(registered)
    steps = registered.spec.probe.steps
    notes().print(f"dry run of {registered.version}: {steps} steps, twice and from a checkpoint ...", markup=False)
    return dry_run(registered, tree.project, tree.commit, lathe.settings.home)


def _print_report(report: ProbeReport, *, as_json: bool) -> None:
    if as_json:
        import dataclasses

        print_json({**dataclasses.asdict(report), "is_exact": report.is_exact})
        return
    for line in report_lines(report):
        console().print(line, markup=False, soft_wrap=True)


def report_lines(report: ProbeReport) -> list[str]:
    """What a person needs to know, with what to change where something is missing."""
    names = ", ".join(report.series[:_SHOWN]) + (" ..." if len(report.series) > _SHOWN else "")
    lines = [
        f"{report.version}: {len(report.series)} series over steps {report.first_step}-{report.last_step}: {names}"
    ]
    if report.last_step != report.steps:
        lines.append(
            f"  the log ends at step {report.last_step}, not {report.steps}: check {{steps}} and log.step_offset"
        )
    lines.append(f"  two equal runs: {_equality(report.spread)}")
    if report.resumed_from is None:
        lines.append(
            f"  going on from a checkpoint: not tried, none was found before step {report.steps} (found at: "
            f"{list(report.checkpoints)}); re-runs would have to begin from random weights"
        )
    else:
        lines.append(f"  going on from the checkpoint at step {report.resumed_from}: {_equality(report.resume_spread)}")
    if report.lines_traced:
        lines.append(f"  {report.files_executed} project files were executed, and their lines traced")
    else:
        lines.append("  which lines ran could not be traced, so no change of code can be proven to be a cause")
    return lines


def _equality(spread: Any) -> str:
    if not spread:
        return "bitwise equal"
    worst = sorted(spread.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} by {100 * value:.2g} %" for name, value in worst[:_SHOWN])
    return f"not bitwise equal ({shown}); leave out clocks by log.ignore, other spread is measured by three replays"
