"""Backup and restore of a whole store by Postgres's own pg_dump and psql, checked by a hash of the content.

A backup is a folder: `lathe.sql.zst` (plain SQL: `zstd -dc lathe.sql.zst | psql` restores it without Lathe) and
`manifest.json`. It appears under its name when it is complete, or not at all. A restore is one transaction.
Memory is bounded by the pieces that are streamed. Run folders and checkpoint files are not part of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
import zstandard
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from context_store.archive_content import Content, TableContent, content_hash, differing_tables, read_content
from context_store.database import Database
from context_store.schema import HEAD, migrate
from context_store.server import binaries
from contracts.errors import DatabaseVersionError, DiskFull, EnvironmentFault, LogFormatError, UserInputError

DATA, MANIFEST = "lathe.sql.zst", "manifest.json"
_PIECE_BYTES = 1 << 20
_DUMP = (
    "--format=plain",
    "--no-owner",
    "--no-privileges",
    "--no-comments",
    "--encoding=UTF8",
    "--lock-wait-timeout=60s",
)
_LOAD = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--output=/dev/null")
_NEWER_SETTING = b"\nSET transaction_timeout = 0;\n"  # pg_dump 18 writes it, a server before 17 does not know it

Tell = Callable[[str, int, int], None]  # what is being done, how much of it, of how much (0: not known)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """`schema`: revision of the migrations; `content_sha256` covers every row of `tables`, `data_sha256` the file."""

    schema: str
    created_at: float
    server_version: str
    content_sha256: str
    data_sha256: str
    data_bytes: int
    tables: Content


def backup(url: str, folder: Path, *, now: float, tell: Tell) -> Manifest:
    """Write the store at `url`, as it is at one moment, to a new folder.

    A store of any version. Raises UserInputError when the folder is there already or the database holds no store,
    EnvironmentFault when pg_dump cannot, OSError of the disk. Then, and when interrupted, nothing is left.
    """
    database = Database(url, clock=lambda: now)
    try:
        with new_folder(folder) as draft, database.snapshot() as connection:
            schema = _schema(connection)
            snapshot: str = connection.execute(sa.text("SELECT pg_export_snapshot()")).scalar_one()
            server: str = connection.execute(sa.text("SHOW server_version")).scalar_one()
            tables = read_content(connection, lambda done, total: tell("reading", done, total))
            sha256 = _dump(url, snapshot, draft / DATA, tell)
            manifest = Manifest(
                schema=schema,
                created_at=now,
                server_version=server,
                content_sha256=content_hash(tables),
                data_sha256=sha256,
                data_bytes=(draft / DATA).stat().st_size,
                tables=tables,
            )
            (draft / MANIFEST).write_text(json.dumps(dataclasses.asdict(manifest), indent=1))
    finally:
        database.close()
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Raises UserInputError when the folder is no backup, DatabaseVersionError when it needs a newer Lathe."""
    try:
        fields = json.loads((folder / MANIFEST).read_text())
        tables = {name: TableContent(**table) for name, table in fields.pop("tables").items()}
        manifest = Manifest(tables=tables, **fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserInputError(
            f"{folder} is no backup of Lathe: {error}", remedy="name the folder that `lathe backup` made"
        ) from error
    if manifest.schema > HEAD:
        raise DatabaseVersionError(
            f"the backup has schema {manifest.schema}, this version of Lathe knows {HEAD}",
            remedy="restore it with the Lathe that made it, or a newer one",
        )
    return manifest


def restore(url: str, folder: Path, *, tell: Tell) -> Manifest:
    """Fill the empty database at `url`, check it against the manifest, then bring it to this version's schema.

    Raises as `read_manifest`, UserInputError when the database is not empty, LogFormatError when the file is damaged,
    EnvironmentFault when the server refuses or what it holds then differs. All or nothing until the check.
    """
    manifest = read_manifest(folder)
    database = Database(url, clock=lambda: 0.0)
    try:
        _require_empty(database)
        _require_sound(folder / DATA, manifest, tell)
        _load(url, folder / DATA, manifest.data_bytes, tell)
        with database.snapshot() as connection:
            found = read_content(connection, lambda done, total: tell("checking", done, total))
    finally:
        database.close()
    if differing := differing_tables(manifest.tables, found):
        raise EnvironmentFault(
            f"what was restored differs from the backup in: {', '.join(differing)}",
            remedy="drop this database, check the server's disk and restore again; the backup is unchanged",
        )
    migrate(url)
    return manifest


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A draft beside `folder` that takes its name at the end of the block, durable; removed on any error."""
    if folder.exists():
        raise UserInputError(f"{folder} is there already", remedy="choose another name, or remove it first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield draft
        for path in [*draft.rglob("*"), draft]:
            _sync(path)
        draft.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _schema(connection: sa.Connection) -> str:
    if connection.execute(sa.text("SELECT to_regclass('public.alembic_version')")).scalar() is None:
        raise UserInputError("the database holds no store of Lathe", remedy="set LATHE_HOME or LATHE_DATABASE_URL")
    found: str = connection.execute(sa.text("SELECT version_num FROM public.alembic_version")).scalar_one()
    return found


def _dump(url: str, snapshot: str, path: Path, tell: Tell) -> str:
    """Returns the file's sha256."""
    digest, done = hashlib.sha256(), 0
    with path.open("wb") as file, _program("pg_dump", [*_DUMP, f"--snapshot={snapshot}"], url) as process:
        compressor = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
        assert process.stdout is not None
        while piece := process.stdout.read(_PIECE_BYTES):
            packed = compressor.compress(piece)
            digest.update(packed)
            file.write(packed)
            done += len(piece)
            tell("writing", done, 0)
        packed = compressor.flush()
        digest.update(packed)
        file.write(packed)
    return digest.hexdigest()


def _load(url: str, path: Path, total: int, tell: Tell) -> None:
    with path.open("rb") as file, _program("psql", _LOAD, url) as process:
        assert process.stdin is not None
        pieces = zstandard.ZstdDecompressor().stream_reader(file)
        first = True
        try:
            while piece := pieces.read(_PIECE_BYTES):
                process.stdin.write(piece.replace(_NEWER_SETTING, b"\n", 1) if first else piece)
                first = False
                tell("restoring", file.tell(), total)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended early and says why


@contextmanager
def _program(name: str, arguments: list[str] | tuple[str, ...], url: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Postgres's programs on this database; the password goes by its environment. It dies with the block."""
    parts: dict[str, Any] = conninfo_to_dict(url)
    password = parts.pop("password", None)
    environment = {**os.environ, "LC_ALL": "C"} | ({"PGPASSWORD": password} if password else {})
    command = [str(binaries() / name), *arguments, f"--dbname={make_conninfo(**parts)}"]
    with tempfile.TemporaryFile() as errors:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, cwd="/")
        try:
            yield process
            process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            _close(process.stdin, process.stdout)
        if process.returncode != 0:
            errors.seek(0)
            raise _fault(name, errors.read().decode(errors="replace").strip())


def _close(*pipes: IO[bytes] | None) -> None:
    for pipe in pipes:
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def _fault(program: str, said: str) -> EnvironmentFault:
    said = said[-1500:]
    if "No space left on device" in said or "could not extend file" in said:
        return DiskFull(f"the database has no space left: {said}", remedy="free some space on its disk and try again")
    remedy = "correct what it names and try again; nothing was changed"
    if "server version mismatch" in said:
        remedy = "the server is newer than Lathe's own Postgres programs: update Lathe"
    return EnvironmentFault(f"{program} failed: {said}", remedy=remedy)


def _require_empty(database: Database) -> None:
    with database.snapshot() as connection:
        found = connection.execute(_USER_TABLES).scalars().all()
    if found:
        raise UserInputError(
            f"the database is not empty; it has {', '.join(found[:3])}{', ...' if len(found) > 3 else ''}",
            remedy="restore into a new one: set LATHE_HOME (or --home) to a new folder, "
            "or LATHE_DATABASE_URL to an empty database",
        )


def _require_sound(path: Path, manifest: Manifest, tell: Tell) -> None:
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            done += len(piece)
            tell("verifying", done, manifest.data_bytes)
    if digest.hexdigest() != manifest.data_sha256:
        raise LogFormatError(
            f"{path} is damaged: {done} bytes whose sha256 is not the one in {MANIFEST}",
            remedy="take another copy of the backup; nothing was restored",
        )


_USER_TABLES = sa.text("""
    SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    ORDER BY 1
""")
