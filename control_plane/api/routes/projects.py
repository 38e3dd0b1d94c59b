"""Projects, and the commits of each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from context_store.code import diff_of
from context_store.links import HunkLink
from context_store.records import Commit, Project
from control_plane.api.access import StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page

router = APIRouter(prefix="/projects", tags=["projects"])
_Hash = Annotated[str, Query(pattern="^[0-9a-f]{40,64}$")]
_Name = Annotated[str | None, Query(max_length=500)]


class ProjectPage(Page):
    projects: list[Project]


class CommitPage(Page):
    commits: list[Commit]


class LinkPage(Page):
    """Change of code -> field it reads -> statistic it bears on."""

    links: list[HunkLink]


class OneProject(Body):
    project: Project


class CommitWhole(Body):
    """`diff`: unified, without lines of context, as far as it was stored."""

    commit: Commit
    diff: str


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


@router.get("/{project_id}/commits/{commit}", response_model=CommitWhole)
def commit(store: StoreDep, project_id: str, commit: Annotated[str, Path(max_length=100)]) -> Answer:
    """One commit with what it changes."""
    store.projects.get(project_id)
    found = store.code.commit(project_id, commit)
    return Answer({"commit": found, "diff": diff_of(store.code.hunks(project_id, commit))})


@router.get("/{project_id}/links", response_model=LinkPage)
def links(
    store: StoreDep,
    wish: PagingDep,
    project_id: str,
    commit: _Hash | None = None,
    series: _Name = None,
    field: _Name = None,
) -> Answer:
    """What a commit bears on, what bears on a series, or what reads a field: one of the three."""
    store.projects.get(project_id)
    found = list(enumerate(store.links.about(project_id, commit=commit, series=series, field=field)))
    chosen, following = page(found, wish, lambda each: each[0])
    return Answer({"links": [link for _, link in chosen], "next": following})
