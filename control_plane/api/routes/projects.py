"""Projects, and the commits of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path, Query

from context_store.records import Commit, Hunk, Project
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
    return Answer({"commit": found, "diff": "".join(_diff(store.code.hunks(project_id, commit)))})


def _diff(hunks: list[Hunk]) -> Iterator[str]:
    path = ""
    for hunk in hunks:
        if hunk.path != path:
            path = hunk.path
            yield f"diff --git a/{hunk.old_path or path} b/{path}\n"
        place = f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"
        yield f"{place} {', '.join(hunk.symbols)}\n{hunk.text}" + ("" if hunk.text.endswith("\n") else "\n")
