"""`lathe code`: history with what each change bears on, and what is not committed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, opened, print_json, print_table

if TYPE_CHECKING:
    from control_plane.wiring import Lathe

app = typer.Typer(help="Changes of code, and which fields and statistics they bear on.", no_args_is_help=True)
Project = Annotated[str, typer.Argument(help="Project id.")]
Repository = Annotated[
    Path | None, typer.Option(help="Its git repository (default: the project's folder; needed for imported projects).")
]


@app.command()
def link(project: Project, repository: Repository = None, as_json: Json = False) -> None:
    """Read the project's new commits, and link each change with fields and statistics."""
    from loops.debug.topics import TOPICS

    with opened() as lathe:
        folder = _repository(lathe, project, repository)
        num_commits = lathe.store.code.ingest(project, folder)
        num_hunks = lathe.store.links.link(project, folder, TOPICS)
        found = {"new_commits": num_commits, "hunks": num_hunks}
        print_json(found) if as_json else console().print(f"{num_commits} new commits, {num_hunks} changes linked")


@app.command()
def snapshot(project: Project, repository: Repository = None, as_json: Json = False) -> None:
    """Store what is not committed as a patch."""
    with opened() as lathe:
        found = lathe.store.code.ingest_working_tree(project, _repository(lathe, project, repository))
        if as_json:
            print_json(found)
        else:
            console().print("nothing is uncommitted" if found is None else f"{found.hash}: {found.subject}")


@app.command()
def links(
    project: Project,
    commit: Annotated[str | None, typer.Option(help="What this commit bears on.")] = None,
    series: Annotated[str | None, typer.Option(help="What bears on this series.")] = None,
    field: Annotated[str | None, typer.Option(help="What reads this field.")] = None,
    as_json: Json = False,
) -> None:
    """Show the links of a commit, a series or a field."""
    with opened() as lathe:
        lathe.store.projects.get(project)
        found = lathe.store.links.about(project, commit=commit, series=series, field=field)
        rows = [(each.commit[:12], each.path, each.new_start, each.field, each.statistic, each.how) for each in found]
        columns = ("commit", "file", "line", "field", "statistic", "how")
        print_json(found) if as_json else print_table(columns, rows, empty=f"None. First: lathe code link {project}")


def _repository(lathe: Lathe, project: str, given: Path | None) -> Path:
    """Raises UserInputError for a project that was imported: where its logs lie is not where its code is."""
    from context_store.streams import ELSEWHERE

    known = lathe.store.projects.get(project).path
    if given is None and known.startswith(ELSEWHERE):
        raise UserInputError(
            f"project '{project}' was imported from {known.removeprefix(ELSEWHERE)}; where its code lies is not known",
            remedy="add --repository PATH, the git repository that was trained",
        )
    return Path(known) if given is None else given.expanduser().resolve()
