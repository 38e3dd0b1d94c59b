"""Projects: source trees with a recipe."""

from __future__ import annotations

import builtins

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.models import ProjectRow, RunRow
from context_store.records import UNKNOWN_OWNER, Project
from contracts.errors import NotFound, UserInputError


class Projects:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, project: Project) -> Project:
        """Store it, or replace what was stored under its id; an owner is kept unless another is named.

        The owner of a new one that names none is whoever opened the store.
        """
        values = {"path": project.path, "entry": project.entry, "backend": project.backend}
        statement = insert(ProjectRow).values(id=project.id, owner=project.owner or self._database.owner, **values)
        if project.owner:
            values["owner"] = project.owner
        with self._database.begin() as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))
        return project

    def set_owner(self, project_id: str, owner: str) -> Project:
        """Who answers for the project, and for its runs that nobody else answers for.

        Raises NotFound, UserInputError for a blank.
        """
        if not owner.strip():
            raise UserInputError("an owner needs a name", remedy="name a person or a team")
        with self._database.begin() as connection:
            connection.execute(sa.update(ProjectRow).where(ProjectRow.id == project_id).values(owner=owner.strip()))
            unclaimed = (RunRow.project_id == project_id) & (RunRow.owner == UNKNOWN_OWNER)
            connection.execute(sa.update(RunRow).where(unclaimed).values(owner=owner.strip()))
        return self.get(project_id)

    def get(self, project_id: str) -> Project:
        """Raises NotFound."""
        with self._database.begin() as connection:
            row = connection.execute(_SELECT.where(ProjectRow.id == project_id)).one_or_none()
        if row is None:
            raise NotFound(f"no project '{project_id}'", remedy="`lathe runs` shows the projects that have runs")
        return Project(**row._mapping)

    def list(self) -> builtins.list[Project]:
        with self._database.begin() as connection:
            return [Project(**row._mapping) for row in connection.execute(_SELECT.order_by(ProjectRow.id))]


_SELECT = sa.select(ProjectRow.__table__)
