"""Projects, and the commits of each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from context_store.records import Commit, Project
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page

router = APIRouter(prefix="/projects", tags=["projects"])
_Hash = Annotated[str, Query(pattern="^[0-9a-f]{40,64}$")]


class ProjectPage(Page):
    projects: list[Project]


class CommitPage(Page):
    commits: list[Commit]


class OneProject(Body):
    project: Project


@router.get("", response_model=ProjectPage)
def projects(store: StoreDep, wish: PagingDep) -> Answer:
    """All of them."""
    found, following = page(store.projects.list(), wish, lambda each: each.id)
    return Answer({"projects": found, "next": following})


@router.get("/{project_id}", response_model=OneProject)
def project(store: StoreDep, project_id: str) -> Answer:
    """One project."""
    return Answer({"project": store.projects.get(project_id)})


@router.get("/{project_id}/commits", response_model=CommitPage)
def commits(store: StoreDep, wish: PagingDep, project_id: str, upto: _Hash, since: _Hash | None = None) -> Answer:
    """The commits of `upto` that `since` lacks (without it: all), oldest first, as far as they were read."""
    store.projects.get(project_id)
    found, following = page(store.code.commits(project_id, since, upto), wish, lambda each: each.hash)
    return Answer({"commits": found, "next": following})
