"""Looks at everything Lathe needs and says what to do about each fault. One function per check."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from contracts.errors import LatheError
from control_plane.settings import Settings

_MIN_GIT = (2, 38)
_MIN_PGVECTOR = (0, 8)
_COMFORTABLE_BYTES = 2 * 2**30


@dataclass(frozen=True, kw_only=True)
class Check:
    """`ok` None: a note about something optional. `remedy` is "" when there is nothing to do."""

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""


def examine(settings: Settings, names: Collection[str] | None = None) -> Iterator[Check]:
    """All checks (or those named), one after the other; none of them raises."""
    for name, check in _CHECKS.items():
        if names is not None and name not in names:
            continue
        try:
            yield from check(settings)
        except LatheError as error:
            yield Check(name=name, ok=False, detail=error.message, remedy=error.remedy)


def _home(settings: Settings) -> Iterator[Check]:
    from control_plane.wiring import prepare_home

    prepare_home(settings.home)
    yield Check(name="home", ok=True, detail=str(settings.home))
    free = shutil.disk_usage(settings.home).free
    yield Check(
        name="disk",
        ok=free >= _COMFORTABLE_BYTES,
        detail=f"{free / 2**30:.1f} GiB free for {settings.home}",
        remedy="" if free >= _COMFORTABLE_BYTES else "free some space, or set LATHE_HOME to another disk",
    )


def _database(settings: Settings) -> Iterator[Check]:
    from context_store.schema import HEAD
    from control_plane.wiring import Lathe

    with Lathe.open(settings) as lathe:
        where = "LATHE_DATABASE_URL" if settings.database_url else f"embedded in {settings.postgres_folder}"
        yield Check(name="database", ok=True, detail=where)
        yield from _schema(lathe.store.url, HEAD)


def _schema(url: str, head: str) -> Iterator[Check]:
    import psycopg

    from context_store.models import Base

    wanted = {index.name for table in Base.metadata.tables.values() for index in table.indexes}
    with psycopg.connect(url) as connection:
        vector = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        broken = {
            row[0] for row in connection.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
        }
        present = {row[0] for row in connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")}
    yield extension(None if vector is None else str(vector[0]))
    yield Check(name="migrations", ok=True, detail=f"schema {head}")  # opening the store refuses any other
    yield _indexes({str(name) for name in wanted}, present, broken)


def extension(vector: str | None) -> Check:
    """`vector`: the version of pgvector in the database; filtered search scans its index again until enough pass."""
    if vector is None:
        remedy = "as a superuser run there: CREATE EXTENSION vector"
        return Check(name="extension", ok=False, detail="pgvector is not installed in the database", remedy=remedy)
    ok = tuple(int(part) for part in re.findall(r"\d+", vector)[:2]) >= _MIN_PGVECTOR
    least = ".".join(map(str, _MIN_PGVECTOR))
    remedy = f"install pgvector {least} or newer on the server, then as a superuser: ALTER EXTENSION vector UPDATE"
    return Check(name="extension", ok=ok, detail=f"pgvector {vector}", remedy="" if ok else remedy)


def _indexes(wanted: set[str], present: set[str], broken: set[str]) -> Check:
    """Only a missing or invalid one needs something done; migrations do not make it again."""
    missing = sorted(wanted - present)
    remedies = [f"REINDEX INDEX {name};" for name in sorted(broken)]
    remedies += [statement for name, statement in _index_statements() if name in missing]
    faulty = sorted(broken) + missing
    return Check(
        name="indexes",
        ok=not faulty,
        detail="missing or invalid: " + ", ".join(faulty) if faulty else f"{len(wanted)} indexes",
        remedy="run in the database: " + " ".join(remedies) if faulty else "",
    )


def _index_statements() -> Iterator[tuple[str, str]]:
    """Name and statement of each index, as the migrations made it."""
    import context_store

    for file in sorted((Path(context_store.__file__).parent / "migrations" / "sql").glob("*.sql")):
        for found in re.finditer(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON .*;$", file.read_text(), re.MULTILINE):
            yield found[1], found[0]


def _ray(settings: Settings) -> Iterator[Check]:
    from control_plane.backends.embedded import EmbeddedBackend

    backend = EmbeddedBackend(num_cpus=1, ray_address=settings.ray_address, cancel_grace_s=settings.cancel_grace_s)
    try:
        backend.warm_up().result()
        where = settings.ray_address or "this machine, loopback only"
        yield Check(name="ray", ok=True, detail=f"ray {version('ray')} starts ({where}, {settings.num_cpus} CPUs)")
    finally:
        backend.close()


def _git(_: Settings) -> Iterator[Check]:
    remedy = f"install git {'.'.join(map(str, _MIN_GIT))} or newer"
    try:
        said = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        yield Check(name="git", ok=False, detail="git was not found", remedy=remedy)
        return
    found = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    ok = found >= _MIN_GIT
    yield Check(name="git", ok=ok, detail=said.strip(), remedy="" if ok else remedy)


def _trainer(_: Settings) -> Iterator[Check]:
    yield Check(name="trainer", ok=True, detail=f"torch {version('torch')}")


def _model(settings: Settings) -> Iterator[Check]:
    if not settings.model:
        unused = "LATHE_API_BASE" if settings.api_base else "LATHE_MODEL_FALLBACKS" if settings.model_fallbacks else ""
        remedy = f"set LATHE_MODEL too, or unset {unused}" if unused else ""
        detail = "no language model is set; every loop works without one"
        yield Check(name="model", ok=False if unused else None, detail=detail, remedy=remedy)
        return
    if settings.api_base:
        yield _server(settings)
    else:
        detail = f"{' then '.join(settings.model_names)}; the key comes from the provider's own variable"
        yield Check(name="model", ok=None, detail=detail)
    thinking = f", {settings.thinking_tokens} tokens of it asked for" if settings.thinking_tokens else ""
    detail = f"thinking {settings.thinking}{thinking}; context of {settings.context_tokens} tokens"
    yield Check(name="model thinking", ok=None, detail=detail)


def _server(settings: Settings) -> Check:
    try:
        with urlopen(settings.api_base.rstrip("/") + "/models", timeout=5):  # noqa: S310 (the person's own setting)
            detail = f"{' then '.join(settings.model_names)} at {settings.api_base}"
            return Check(name="model", ok=True, detail=detail)
    except (URLError, OSError, ValueError) as error:
        return Check(
            name="model",
            ok=False,
            detail=f"{settings.api_base} does not answer: {error}",
            remedy="start it, or correct LATHE_API_BASE",
        )


def _optional(_: Settings) -> Iterator[Check]:
    for program, purpose in (("chromium", "browser tests"), ("bwrap", "the sandbox of agent-written code")):
        found = shutil.which(program)
        remedy = "" if found else f"install {'bubblewrap' if program == 'bwrap' else program}"
        yield Check(name=program, ok=None, detail=found or f"not installed; needed for {purpose}", remedy=remedy)


def _services(settings: Settings) -> Iterator[Check]:
    from control_plane.services.cluster import status

    for name, service in status(settings).items():
        detail = f"runs as process {service.pid}" if service else "does not run"
        yield Check(name=f"service {name}", ok=None, detail=detail, remedy="" if service else "start it with: lathe up")


_CHECKS: dict[str, Callable[[Settings], Iterator[Check]]] = {
    "home": _home,
    "database": _database,
    "ray": _ray,
    "git": _git,
    "trainer": _trainer,
    "model": _model,
    "optional": _optional,
    "services": _services,
}
WITHOUT_STARTING = frozenset({"home", "git", "trainer", "model", "optional", "services"})
