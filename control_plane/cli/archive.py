"""`lathe backup`, `restore`, `export`: the whole store to a folder and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.session import Json, notes, opened, print_json, settings

if TYPE_CHECKING:
    from context_store.archive import Manifest
    from control_plane.cli.progress import StageProgress

_INTERRUPTED = 130
Target = Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")]


def backup(folder: Target, as_json: Json = False) -> None:
    """Write the whole store, as it is at one moment, to FOLDER; prints the hash of its content."""
    from context_store import archive

    with opened() as lathe, _told(folder, quiet=as_json) as progress:
        made = archive.backup(lathe.store.url, folder.absolute(), now=time.time(), tell=progress.update)
    _report("backup", folder, made, as_json=as_json)


def restore(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `lathe backup` made.")], as_json: Json = False
) -> None:
    """Fill an empty database (a new LATHE_HOME, or LATHE_DATABASE_URL) from a backup and check it by its hash."""
    from context_store import archive
    from control_plane.wiring import embedded_database, prepare_home

    chosen = settings()
    archive.read_manifest(folder)
    prepare_home(chosen.home)
    with _told(folder, quiet=as_json) as progress:
        if chosen.database_url:
            made = archive.restore(chosen.database_url, folder, tell=progress.update)
        else:
            with embedded_database(chosen.postgres_folder) as url:
                made = archive.restore(url, folder, tell=progress.update)
    _report("restored", folder, made, as_json=as_json)


def export(folder: Target, as_json: Json = False) -> None:
    """Write everything to FOLDER as Parquet and Markdown, readable without Lathe."""
    from context_store.export import export as write

    with opened() as lathe, _told(folder, quiet=as_json) as progress:
        counts = write(lathe.store.url, folder.absolute(), now=time.time(), tell=progress.update)
    if as_json:
        print_json({"folder": folder.absolute(), "rows": counts})
        return
    notes().print(f"exported {counts['points']} points of {counts['run']} runs", markup=False)
    typer.echo(folder.absolute() / "README.md")


@contextmanager
def _told(folder: Path, *, quiet: bool) -> Iterator[StageProgress]:
    """Progress, and file errors and Ctrl-C in words."""
    from control_plane.cli.progress import StageProgress
    from control_plane.disk import explained

    try:
        with explained(folder), StageProgress(quiet=quiet) as progress:
            yield progress
    except KeyboardInterrupt:
        notes().print("lathe: interrupted; nothing was kept")
        raise typer.Exit(_INTERRUPTED) from None


def _report(what: str, folder: Path, made: Manifest, *, as_json: bool) -> None:
    rows = sum(table.rows for table in made.tables.values())
    if as_json:
        found = {"folder": folder.absolute(), "content_sha256": made.content_sha256, "rows": rows}
        print_json(found | {"schema": made.schema, "data_bytes": made.data_bytes})
        return
    size = made.data_bytes / 2**20
    notes().print(f"{what} {folder}: {rows} rows, {size:.1f} MiB, content sha256 as below", markup=False)
    notes().print("checkpoints and run folders are not part of a backup", markup=False)
    typer.echo(made.content_sha256)
