"""Code versions on disk: (repository, base, reverts, picks, diff) -> a detached `git worktree` and its exact diff.

The patched tree is computed by git's own three-way merge on objects alone (`git merge-tree`, as revert and
cherry-pick do it), so neither the person's branch nor working tree nor index is touched, and nothing is pushed.
Equal versions give equal commits (fixed author and date), hence the same folder: asking again is free.
Submodules and LFS content are not fetched.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contracts.errors import RepositoryError
from control_plane.disk import explained
from control_plane.git import Git, require_commit, require_repository

BRANCH_PREFIX = "lathe/"
_LEADS_ELSEWHERE = frozenset({"120000", "160000"})  # modes of symbolic links and submodules


@dataclass(frozen=True, kw_only=True)
class CodeVersion:
    """Commit `base` without the commits `revert`, with the commits `pick`, and then changed by `diff`.

    `diff`: as git writes it, with paths from the root of the repository; "" changes nothing.
    """

    base: str
    revert: tuple[str, ...] = ()
    pick: tuple[str, ...] = ()
    diff: str = ""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A code version that is checked out."""

    project: Path  # the project's folder inside the worktree
    base: str
    commit: str  # equals base when nothing was patched
    tree: str  # git tree hash
    diff: str  # unified, base -> tree


class Worktrees:
    """Materialises code versions under `folder`. Safe to use from several processes at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def materialise(self, project: Path, code: CodeVersion) -> Tree:
        """Check out `code` of the repository that holds `project`. RepositoryError when a patch does not apply."""
        git = Git(project)
        common = require_repository(git)
        prefix = git("rev-parse", "--show-prefix")
        base, commit, diff = patch(git, code)
        place = self._folder / hashlib.sha256(str(common).encode()).hexdigest()[:12] / commit
        with self._lock():
            _check_out(git, commit, place)
        if not (place / prefix).is_dir():
            raise RepositoryError(f"commit {commit[:12]} has no folder {prefix}", remedy="choose a later commit")
        return Tree(
            project=place / prefix,
            base=base,
            commit=commit,
            tree=git("rev-parse", commit + "^{tree}"),
            diff=diff,
        )

    def commit_on_branch(self, project: Path, tree: Tree, branch: str) -> str:
        """Create `branch` at the tree's commit and return its commit; an existing branch must hold the same tree."""
        git = Git(project)
        name = f"refs/heads/{branch}"
        if not branch.startswith(BRANCH_PREFIX) or git.attempt("check-ref-format", name).returncode != 0:
            raise RepositoryError(f"'{branch}' is no branch of Lathe", remedy=f"use a name under {BRANCH_PREFIX}")
        with self._lock():
            found = git.attempt("rev-parse", "--verify", "--quiet", name + "^{tree}")
            if found.returncode != 0:
                git("update-ref", "-m", "lathe: approved fix", name, tree.commit, "0" * 40, what=f"branch {branch}")
                return tree.commit
        if found.stdout.strip() != tree.tree:
            raise RepositoryError(
                f"the branch {branch} exists with another content", remedy=f"rename it: git branch -m {branch} NAME"
            )
        return git("rev-parse", name)

    def delete_branch(self, project: Path, branch: str, commit: str) -> None:
        """Delete a branch that stands at `commit`; one that is gone stays gone. RepositoryError when it moved on."""
        git = Git(project)
        name = f"refs/heads/{branch}"
        with self._lock():
            found = git.attempt("rev-parse", "--verify", "--quiet", name)
            if found.returncode != 0:
                return
            if found.stdout.strip() != commit:
                raise RepositoryError(f"the branch {branch} has moved on", remedy=f"look at it: git log {branch}")
            git("update-ref", "-d", name, commit, what=f"branch {branch}")

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Held across processes; the kernel drops it when the holder dies."""
        with explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / "lock").open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield


def patch(git: Git, code: CodeVersion) -> tuple[str, str, str]:
    """(full hash of the base, commit, exact diff) of a code version, without a checkout.

    Objects are all that it adds to the repository. RepositoryError when a patch does not apply.
    """
    base = require_commit(git, code.base)
    commit = _patched(git, base, code)
    return base, commit, exact_diff(git, base, commit)


def exact_diff(git: Git, before: str, after: str) -> str:
    """Unified, the same whatever the person's settings of git are; "" when the two do not differ."""
    options = ("-p", "-U3", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames")
    diff = git("diff-tree", *options, before, after)
    return diff + "\n" if diff else ""


def _patched(git: Git, base: str, code: CodeVersion) -> str:
    """Commit with `code`'s reverts (newest first), picks (oldest first) and diff; `base` when there are none."""
    if not (code.revert or code.pick or code.diff):
        return base
    start = tree = git("rev-parse", base + "^{tree}")
    for commit in _topological(git, code.revert):
        tree = _merge(git, ancestor=commit, ours=tree, theirs=_parent(git, commit), what=f"revert of {commit[:12]}")
    for commit in reversed(_topological(git, code.pick)):
        tree = _merge(git, ancestor=_parent(git, commit), ours=tree, theirs=commit, what=f"pick of {commit[:12]}")
    if code.diff:
        tree = _applied(git, tree, code.diff)
    if tree == start:
        raise RepositoryError(
            f"the patch changes nothing on {base[:12]}", remedy="the commits are already reverted or contained there"
        )
    lines = [f"Revert {commit}" for commit in code.revert] + [f"Pick {commit}" for commit in code.pick]
    lines += [f"Apply {hashlib.sha256(code.diff.encode()).hexdigest()}"] if code.diff else []
    subject = f"{lines[0][:19]} on {base[:12]}" if len(lines) == 1 else f"{len(lines)} patches on {base[:12]}"
    return git("commit-tree", tree, "-p", base, "-m", subject, "-m", "\n".join(lines), env=_authorship(git, base))


def _applied(git: Git, tree: str, diff: str) -> str:
    """The tree with `diff` applied, in an index of its own. RepositoryError when it does not apply exactly.

    Git itself refuses paths out of the repository, into `.git` and through symbolic links; new links and submodules
    are refused here, because what they lead to is not in the diff that a person sees.
    """
    root = Git(Path(git("rev-parse", "--show-toplevel")))
    with tempfile.TemporaryDirectory(prefix="lathe-diff") as folder:
        index, file = {"GIT_INDEX_FILE": str(Path(folder) / "index")}, Path(folder) / "change.diff"
        file.write_bytes(diff.encode(errors="surrogateescape"))
        root("read-tree", tree, env=index)
        done = root.attempt("apply", "--cached", "--whitespace=nowarn", str(file), env=index)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no message"]
            raise RepositoryError(
                f"the diff does not apply: {said[0].removeprefix('error: ')}", remedy="make it again on that commit"
            )
        after = root("write-tree", env=index)
    for line in root("diff-tree", "-r", "--no-renames", tree, after).splitlines():
        if line.split(" ")[1] in _LEADS_ELSEWHERE:
            raise RepositoryError(
                f"the diff makes a link or submodule of {line.partition(chr(9))[2]}", remedy="change plain files only"
            )
    return after


def changed_files(project: Path, tree: Tree) -> tuple[str, ...]:
    """Paths that differ between the tree's base and the tree, relative to the project; `../` leads out of it."""
    git = Git(project)
    prefix = git("rev-parse", "--show-prefix")
    found = git("diff-tree", "-r", "-z", "--name-only", "--no-renames", tree.base, tree.tree).split("\0")
    return tuple(name.removeprefix(prefix) if name.startswith(prefix) else f"../{name}" for name in found if name)


def _topological(git: Git, commits: Sequence[str]) -> list[str]:
    """Full hashes, descendants before ancestors."""
    wanted = [require_commit(git, commit) for commit in commits]
    if len(wanted) < 2:
        return wanted
    return [line for line in git("rev-list", "--topo-order", *wanted).splitlines() if line in set(wanted)]


def _parent(git: Git, commit: str) -> str:
    """What a commit changed: its parent, what git makes of a merge's parents by itself, the empty tree of a root."""
    _, *parents = git("rev-list", "--parents", "-n", "1", commit).split()
    if len(parents) != 2:
        return parents[0] if parents else git("hash-object", "-w", "-t", "tree", "/dev/null")
    done = git.attempt("merge-tree", "--write-tree", "--no-messages", *parents)
    if done.returncode == 0:
        return done.stdout.strip()
    what = "settled conflicts by hand" if done.returncode == 1 else f"cannot be made again: {done.stderr.strip()}"
    raise RepositoryError(f"the merge {commit[:12]} {what}", remedy="make this change by hand")


def _merge(git: Git, *, ancestor: str, ours: str, theirs: str, what: str) -> str:
    """Tree of the three-way merge. Parentless commits stand in, so that git takes `ancestor` as the merge base."""
    root = _plain_commit(git, ancestor)
    sides = [_plain_commit(git, side, parent=root) for side in (ours, theirs)]
    done = git.attempt("merge-tree", "--write-tree", "--name-only", "--no-messages", *sides)
    first, *rest = done.stdout.splitlines() or [""]
    if done.returncode == 0:
        return first
    if done.returncode == 1:
        conflicts = ", ".join(line for line in rest if line) or "unknown files"
        raise RepositoryError(f"the {what} conflicts in {conflicts}", remedy="make this change by hand")
    raise RepositoryError(f"the {what} failed: {done.stderr.strip()}", remedy="Lathe needs git 2.38 or newer")


def _plain_commit(git: Git, treeish: str, *, parent: str = "") -> str:
    tree = git("rev-parse", "--verify", treeish + "^{tree}")
    parents = ("-p", parent) if parent else ()
    return git("commit-tree", tree, *parents, "-m", "merge side", env=_identity("2000-01-01T00:00:00Z"))


def _authorship(git: Git, base: str) -> Mapping[str, str]:
    """Lathe as author at the date of `base`, so that equal patches are equal commits."""
    return _identity(git("show", "-s", "--format=%cI", base))


def _identity(date: str) -> Mapping[str, str]:
    person = {"NAME": "Lathe", "EMAIL": "lathe@localhost", "DATE": date}
    return {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in person.items()}


def _check_out(git: Git, commit: str, place: Path) -> None:
    """Make `place` a clean worktree at `commit`; repairs one that a crash or a program left damaged."""
    if _sound(place, commit):
        return
    shutil.rmtree(place, ignore_errors=True)
    git("worktree", "prune")
    place.parent.mkdir(parents=True, exist_ok=True)
    git("worktree", "add", "--detach", "--force", "--quiet", str(place), commit, what=f"checkout of {commit[:12]}")


def _sound(place: Path, commit: str) -> bool:
    if not (place / ".git").is_file():
        return False
    inside = Git(place)
    if inside.attempt("rev-parse", "--verify", "--quiet", "HEAD").stdout.strip() != commit:
        return False
    return inside.attempt("reset", "--hard", "--quiet", commit).returncode == 0
