"""Code history: git commits with their hunks and the Python names they touch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store import git_log
from context_store.database import Database, any_of
from context_store.git_log import RawCommit, RawHunk
from context_store.models import CommitRow, HunkRow
from context_store.records import Commit, Hunk
from context_store.redaction import redact, redact_author, redact_source
from context_store.symbols import Definition, definitions, touched
from contracts.errors import RepositoryError

_COMMITS_A_TRANSACTION = 200


class Code:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ingest(self, project_id: str, repository: Path) -> int:
        """Load the commits of all branches that are not stored yet; returns their number.

        Raises RepositoryError for a missing, empty or broken repository; what could be read before is kept.
        """
        git_log.check_repository(repository)
        num_new, batch = 0, list[RawCommit]()
        try:
            for commit in git_log.read_log(repository, self._tips(project_id)):
                batch.append(commit)
                if len(batch) == _COMMITS_A_TRANSACTION:
                    num_new += self._store(project_id, repository, batch)
                    batch = []
        finally:
            num_new += self._store(project_id, repository, batch)
        return num_new

    def ingest_working_tree(self, project_id: str, repository: Path) -> Commit | None:
        """Store what is not committed, untracked files too, as a commit on HEAD; None when there is nothing.

        Its hash is `worktree-` and the hash of the tree, so the same state is stored once. HEAD is ingested first.
        Raises RepositoryError.
        """
        self.ingest(project_id, repository)
        with git_log.working_tree(repository, self._database.clock()) as found:
            if found is None:
                return None
            commit, environment = found
            self._store(project_id, repository, [commit], environment)
        return self.commit(project_id, commit.hash)

    def commit(self, project_id: str, commit: str) -> Commit:
        """Raises RepositoryError for a commit that is not stored."""
        query = _COMMIT.where(CommitRow.project_id == project_id, CommitRow.hash == commit)
        with self._database.begin() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise _lacks(project_id, commit)
        return Commit(**row._mapping)

    def commits(self, project_id: str, after: str | None, upto: str) -> list[Commit]:
        """Ancestors of `upto` (itself too) that are not ancestors of `after` (nor itself), parents first.

        Raises RepositoryError when one of the two is neither stored nor a parent of what is.
        """
        with self._database.begin() as connection:
            rows = connection.execute(_COMMIT.where(CommitRow.project_id == project_id)).all()
        known = {row.hash: Commit(**row._mapping) for row in rows}
        wanted = _history(project_id, known, upto)
        if after is not None:
            wanted -= _history(project_id, known, after)
        return sorted((known[commit] for commit in wanted), key=lambda commit: commit.ordinal)

    def hunks(self, project_id: str, commit: str) -> list[Hunk]:
        """In the order of the diff; a merge has what it changed besides joining its parents (git 2.35 or newer)."""
        query = _HUNK.where(HunkRow.project_id == project_id, HunkRow.commit == commit).order_by(HunkRow.ordinal)
        with self._database.begin() as connection:
            return [Hunk(**row._mapping) for row in connection.execute(query)]

    def hunks_of_files(self, project_id: str, paths: Collection[str]) -> list[Hunk]:
        """All stored hunks of these files, in no particular order."""
        query = _HUNK.where(HunkRow.project_id == project_id, HunkRow.path == any_of(list(paths)))
        with self._database.begin() as connection:
            return [Hunk(**row._mapping) for row in connection.execute(query)]

    def _tips(self, project_id: str) -> list[str]:
        """Stored commits that are nobody's parent: with their ancestors, everything that is stored."""
        mine = (CommitRow.project_id == project_id) & ~CommitRow.hash.startswith(git_log.WORKTREE)
        parents = sa.select(sa.func.unnest(CommitRow.parents)).where(mine)
        query = sa.select(CommitRow.hash).where(mine, CommitRow.hash.not_in(parents))
        with self._database.begin() as connection:
            return list(connection.execute(query).scalars())

    def _store(
        self,
        project_id: str,
        repository: Path,
        batch: Sequence[RawCommit],
        environment: git_log.Environment | None = None,
    ) -> int:
        if not batch:
            return 0
        git_log.add_what_merges_changed(repository, batch)
        files = _definitions(repository, batch, environment)
        hunks = [row for commit in batch for row in _hunk_rows(project_id, commit, files)]
        with self._database.begin() as connection:
            _put(connection, project_id, batch, hunks)
        return len(batch)


def put_patch(connection: sa.Connection, project_id: str, commit: RawCommit) -> None:
    """Uncommitted changes that another machine sent; which Python names they touch is not known. Idempotent by hash."""
    _put(connection, project_id, [commit], _hunk_rows(project_id, commit, {}))


def _put(
    connection: sa.Connection, project_id: str, batch: Sequence[RawCommit], hunks: Sequence[dict[str, Any]]
) -> None:
    newest = sa.select(sa.func.coalesce(sa.func.max(CommitRow.ordinal), 0))
    lock = sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(f"code:{project_id}", 0))
    connection.execute(sa.select(lock))
    first = connection.execute(newest.where(CommitRow.project_id == project_id)).scalar_one() + 1
    commits = [_commit_row(project_id, commit, first + i) for i, commit in enumerate(batch)]
    insert_commits = insert(CommitRow).on_conflict_do_nothing(index_elements=["project_id", "hash"])
    connection.execute(insert_commits, commits)
    if hunks:
        connection.execute(insert(HunkRow).on_conflict_do_nothing(), hunks)


def diff_of_commit(connection: sa.Connection, project_id: str | None, commit: str) -> str:
    """What is stored of its diff, without lines of context; "" when it is not stored."""
    query = _HUNK.where(HunkRow.project_id == project_id, HunkRow.commit == commit).order_by(HunkRow.ordinal)
    return diff_of([Hunk(**row._mapping) for row in connection.execute(query)])


def diff_of(hunks: Iterable[Hunk]) -> str:
    """Unified, in the order of the hunks."""
    parts, path = list[str](), ""
    for hunk in hunks:
        if hunk.path != path:
            path = hunk.path
            old = hunk.old_path or path
            parts.append(f"diff --git a/{old} b/{path}\n--- a/{old}\n+++ b/{path}\n")
        place = f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"
        parts.append(f"{place} {', '.join(hunk.symbols)}\n{hunk.text}" + ("" if hunk.text.endswith("\n") else "\n"))
    return "".join(parts)


_COMMIT = sa.select(*(column for column in CommitRow.__table__.columns if column.key != "project_id"))
_HUNK = sa.select(*(c for c in HunkRow.__table__.columns if c.key not in ("project_id", "ordinal")))


def _history(project_id: str, known: dict[str, Commit], tip: str) -> set[str]:
    """`tip` and all its stored ancestors; none of a commit that is only known as a parent."""
    if tip not in known and not any(tip in commit.parents for commit in known.values()):
        raise _lacks(project_id, tip)
    seen: set[str] = set()
    waiting = [tip]
    while waiting:
        commit = waiting.pop()
        if commit in known and commit not in seen:
            seen.add(commit)
            waiting += known[commit].parents
    return seen


def _lacks(project_id: str, commit: str) -> RepositoryError:
    return RepositoryError(
        f"project '{project_id}' has no commit '{commit}'",
        remedy="give a full commit hash of the project's repository; a new commit has to be ingested first",
    )


def _commit_row(project_id: str, commit: RawCommit, ordinal: int) -> dict[str, Any]:
    return {
        "project_id": project_id,
        "hash": commit.hash,
        "parents": commit.parents,
        "author": redact_author(commit.author),
        "committed_at": commit.committed_at,
        "subject": redact(commit.subject),
        "ordinal": ordinal,
    }


def _hunk_rows(project_id: str, commit: RawCommit, files: dict[str, tuple[Definition, ...]]) -> list[dict[str, Any]]:
    return [
        {
            "project_id": project_id,
            "commit": commit.hash,
            "ordinal": ordinal,
            "path": redact_source(hunk.path),
            "old_path": redact_source(hunk.old_path),
            "old_start": hunk.old_start,
            "old_lines": hunk.old_lines,
            "new_start": hunk.new_start,
            "new_lines": hunk.new_lines,
            "symbols": _symbols(commit, hunk, files),
            "text": redact_source(hunk.text),
        }
        for ordinal, hunk in enumerate(commit.hunks)
    ]


def _source(commit: RawCommit, hunk: RawHunk) -> str:
    """Which file tells the names: the new one, or the old one when lines were only removed."""
    if hunk.new_lines or not commit.parents:
        return f"{commit.hash.removeprefix(git_log.WORKTREE)}:{hunk.path}"
    return f"{commit.parents[0]}:{hunk.old_path}"


def _symbols(commit: RawCommit, hunk: RawHunk, files: dict[str, tuple[Definition, ...]]) -> tuple[str, ...]:
    found = files.get(_source(commit, hunk), ())
    if hunk.new_lines:
        return touched(found, hunk.new_start, hunk.new_lines)
    return touched(found, hunk.old_start, hunk.old_lines)


def _definitions(
    repository: Path, batch: Sequence[RawCommit], environment: git_log.Environment | None
) -> dict[str, tuple[Definition, ...]]:
    """Definitions of every Python file the batch's hunks point into, by its `commit:path`."""
    names = {_source(commit, hunk) for commit in batch for hunk in commit.hunks if hunk.path.endswith(".py")}
    contents = git_log.read_files(repository, sorted(names), environment)
    return {name: definitions(source) for name, source in contents.items()}
