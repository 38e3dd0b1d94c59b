"""Projects: folders under git, known to the store by an id that follows from their path.

A project names the backend that trains it: `embedded` (a `recipe.py` for Lathe's own trainer), or a command that was
added by `lathe backend add`; then its entry says which version of that backend's spec.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from context_store import Store
from context_store.records import UNKNOWN_OWNER, Project
from contracts.errors import ConfigError
from control_plane.backends.command_registry import Registered
from control_plane.git import Git, require_repository

DEFAULT_ENTRY = "recipe:recipe"
EMBEDDED = "embedded"


def register_project(store: Store, folder: Path, *, entry: str = DEFAULT_ENTRY, owner: str = "") -> Project:
    """Make the folder known and read its history; a project that names a command as its backend keeps it.

    `owner`: who answers for it, unless somebody does. RepositoryError or ConfigError when it cannot be a project.
    """
    folder = folder.expanduser().resolve()
    require_repository(Git(folder))
    known = next((each for each in store.projects.list() if each.id == project_id(folder)), None)
    if known is not None and known.backend != EMBEDDED:
        store.code.ingest(known.id, folder)
        return known
    module = entry.partition(":")[0]
    if not (folder / f"{module}.py").is_file():
        raise ConfigError(
            f"{folder} has no {module}.py",
            remedy=f"write one with a function def {entry.partition(':')[2]}() -> Recipe, "
            "or connect your own training: lathe backend add FILE",
        )
    owner = owner if known is None or known.owner == UNKNOWN_OWNER else known.owner
    project = Project(id=project_id(folder), path=str(folder), entry=entry, backend=EMBEDDED, owner=owner)
    store.projects.put(project)
    store.code.ingest(project.id, folder)
    return project


def connect_project(store: Store, folder: Path, registered: Registered) -> Project:
    """Make the folder known as one that this backend trains. Raises RepositoryError."""
    folder = folder.expanduser().resolve()
    require_repository(Git(folder))
    project = Project(id=project_id(folder), path=str(folder), entry=registered.entry, backend=registered.spec.name)
    store.projects.put(project)
    store.code.ingest(project.id, folder)
    return project


def disconnect_project(store: Store, project: Project) -> None:
    """Back to Lathe's own trainer, until another backend is named."""
    store.projects.put(replace(project, entry=DEFAULT_ENTRY, backend=EMBEDDED))


def project_id(folder: Path) -> str:
    """Readable and unique: the folder's name and a hash of its path."""
    slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
    return f"{slug}-{hashlib.sha256(str(folder).encode()).hexdigest()[:6]}"
