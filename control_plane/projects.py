"""Projects: folders under git with a recipe, known to the store by an id that follows from their path."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from context_store import Store
from context_store.records import Project
from contracts.errors import ConfigError
from control_plane.git import Git, require_repository

DEFAULT_ENTRY = "recipe:recipe"


def register_project(store: Store, folder: Path, *, entry: str = DEFAULT_ENTRY) -> Project:
    """Make the folder known and read its history. RepositoryError or ConfigError when it cannot be a project."""
    folder = folder.expanduser().resolve()
    require_repository(Git(folder))
    module = entry.partition(":")[0]
    if not (folder / f"{module}.py").is_file():
        raise ConfigError(
            f"{folder} has no {module}.py",
            remedy=f"write one with a function: def {entry.partition(':')[2]}() -> Recipe",
        )
    project = Project(id=project_id(folder), path=str(folder), entry=entry)
    store.projects.put(project)
    store.code.ingest(project.id, folder)
    return project


def project_id(folder: Path) -> str:
    """Readable and unique: the folder's name and a hash of its path."""
    slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
    return f"{slug}-{hashlib.sha256(str(folder).encode()).hexdigest()[:6]}"
