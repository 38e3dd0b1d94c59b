"""Reads a git history by subprocess: commits in topological order with their hunks, and file contents."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from contracts.errors import EnvironmentFault, RepositoryError

_OPTIONS = ["-c", "core.quotePath=false", "-c", "log.showSignature=false", "-c", "color.ui=never"]
_DIFF = ["-p", "-U0", "-M", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"]
_FORMAT = "--format=%x01%H%x02%P%x02%an%x02%ct%x02%s"
_LOG = [
    "log", "--all", "HEAD", "--topo-order", "--reverse", "--ignore-missing", "--stdin",
    _FORMAT, *_DIFF,
]  # fmt: skip
_ANYBODY = ["-c", "user.name=Lathe", "-c", "user.email=lathe@localhost"]
WORKTREE = "worktree-"
Environment = Mapping[str, str]
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
MAX_HUNK_CHARACTERS = 65_536
_MAX_LINES = 2**31 - 1


@dataclass(kw_only=True)
class RawHunk:
    """One hunk, or (all numbers 0) a change without lines: a rename, a mode, a binary file."""

    old_path: str
    path: str
    old_start: int = 0
    old_lines: int = 0
    new_start: int = 0
    new_lines: int = 0
    text: str = ""


@dataclass(kw_only=True)
class RawCommit:
    """A merge carries no hunks until `add_what_merges_changed`: what it joins is in the commits it joins."""

    hash: str
    parents: tuple[str, ...]
    author: str
    committed_at: float
    subject: str
    hunks: list[RawHunk] = field(default_factory=list)


def check_repository(repository: Path) -> None:
    """Raises RepositoryError unless `repository` is a readable git repository with at least one commit."""
    if not repository.is_dir():
        raise RepositoryError(f"{repository} does not exist", remedy="give the path of the project's git repository")
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), "rev-parse", "--verify", "HEAD^{commit}"], capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise EnvironmentFault("git is not installed", remedy="install git (Debian: apt-get install git)") from error
    if done.returncode != 0:
        raise _broken(repository, done.stderr.decode(errors="replace"))


def read_log(repository: Path, known: Sequence[str]) -> Iterator[RawCommit]:
    """Commits of all branches that are neither in `known` nor ancestors of them, parents first.

    Raises RepositoryError when git stops halfway; what was yielded before is sound.
    """
    command = ["git", "-C", str(repository), *_OPTIONS, *_LOG]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # git has ended already; its exit status tells
            process.stdin.write("".join(f"^{commit}\n" for commit in known).encode())
            process.stdin.close()
        complete: RawCommit | None = None  # the last one may be cut off; it counts only when git ended well
        for commit in _parse(process.stdout):
            if complete is not None:
                yield complete
            complete = commit
        if process.wait() != 0:
            errors.seek(0)
            raise _broken(repository, errors.read().decode(errors="replace"))
    if complete is not None:
        yield complete


def add_what_merges_changed(repository: Path, commits: Sequence[RawCommit]) -> None:
    """Give each merge among them what it did besides what git makes of its parents by itself: the merge made again.

    Git before 2.35 (2.38 for more than two parents) cannot; then merges stay without hunks. (Not by `read_log`: in a
    reversed log, git 2.39 takes wrong merge bases.)
    """
    for commit in commits:
        if len(commit.parents) > 2:
            _add_what_octopus_changed(repository, commit)
    merges = {commit.hash: commit for commit in commits if len(commit.parents) == 2}
    if not merges:
        return
    command = ["git", "-C", str(repository), *_OPTIONS, "log", "--no-walk=unsorted", "--stdin", _FORMAT, *_DIFF]
    asked = "".join(f"{commit}\n" for commit in merges).encode()
    done = subprocess.run([*command, "--remerge-diff"], input=asked, capture_output=True, check=False)
    for found in _parse(io.BytesIO(done.stdout)):
        merges[found.hash].hunks = found.hunks


def _add_what_octopus_changed(repository: Path, commit: RawCommit) -> None:
    """Its parents are merged one after another, as git did, into temporary objects, and compared with the commit.

    Where git finds conflicts on that way no octopus can have been made by it: then the commit stays without hunks.
    """
    with _objects_elsewhere(repository) as environment, suppress(RepositoryError):
        merged = commit.parents[0]
        for parent in commit.parents[1:]:
            tree = _git(repository, "merge-tree", "--write-tree", merged, parent, environment=environment).strip()
            parents = ("-p", merged, "-p", parent)
            merged = _git(repository, *_ANYBODY, "commit-tree", tree, *parents, "-m", "", environment=environment)
            merged = merged.strip()
        diff = _git(repository, *_OPTIONS, "diff", *_DIFF, merged, commit.hash, environment=environment)
        commit.hunks = commit_of_patch(commit.hash, merged, diff, commit.committed_at).hunks


@contextmanager
def _objects_elsewhere(repository: Path) -> Iterator[dict[str, str]]:
    """An environment in which git writes to a temporary folder and still reads the repository."""
    with tempfile.TemporaryDirectory() as folder:
        objects = _git(repository, "rev-parse", "--path-format=absolute", "--git-path", "objects").strip()
        written = {"GIT_OBJECT_DIRECTORY": folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects}
        yield {**os.environ, "GIT_INDEX_FILE": f"{folder}/index", **written}


@contextmanager
def working_tree(repository: Path, at: float) -> Iterator[tuple[RawCommit, Environment] | None]:
    """What is not committed, untracked files too, as one commit on HEAD; None when there is nothing.

    Its hash is `worktree-` and the hash of the tree. Its objects lie in a temporary folder: nothing is written to the
    repository, and its contents can be read with the given environment while the context is open. `at`: unix seconds.
    """
    with _objects_elsewhere(repository) as environment:
        head = _git(repository, "rev-parse", "HEAD").strip()
        _git(repository, "read-tree", "HEAD", environment=environment)
        _git(repository, "add", "-A", environment=environment)
        tree = _git(repository, "write-tree", environment=environment).strip()
        if tree == _git(repository, "rev-parse", "HEAD^{tree}").strip():
            yield None
            return
        diff = _git(repository, *_OPTIONS, "diff", "--cached", *_DIFF, "HEAD", environment=environment)
        yield commit_of_patch(f"{WORKTREE}{tree}", head, diff, at), environment


def commit_of_patch(version: str, head: str, patch: str, at: float) -> RawCommit:
    """A diff on `head` as a commit of that name. `at`: unix seconds. Raises ValueError for what git would not write."""
    header = f"\x01{version}\x02{head}\x02\x02{at}\x02uncommitted changes on {head[:12]}\n"
    if "\n\x01" in f"\n{patch}":  # git begins no line of a diff like this, we the next commit
        raise ValueError("no patch of one commit")
    (commit,) = _parse(io.BytesIO((header + patch).encode("utf-8", "surrogateescape")))
    numbers = [n for each in commit.hunks for n in (each.old_start, each.old_lines, each.new_start, each.new_lines)]
    if max(numbers, default=0) > _MAX_LINES:
        raise ValueError("no patch: a hunk of more lines than a file has")
    return commit


def read_files(repository: Path, names: Sequence[str], environment: Environment | None = None) -> dict[str, str]:
    """Contents of `commit:path` names; those that do not exist are left out."""
    names = [name for name in names if "\n" not in name]
    command = ["git", "-C", str(repository), "cat-file", "--batch"]
    asked = "".join(f"{name}\n" for name in names).encode()
    output = subprocess.run(command, input=asked, capture_output=True, check=False, env=environment).stdout
    contents: dict[str, str] = {}
    position = 0
    for name in names:
        line, _, _ = output[position:].partition(b"\n")
        position += len(line) + 1
        if line.endswith(b" missing") or not line:
            continue
        size = int(line.split()[-1])
        contents[name] = output[position : position + size].decode(errors="replace")
        position += size + 1
    return contents


def _git(repository: Path, *arguments: str, environment: Environment | None = None) -> str:
    """Standard output. Raises RepositoryError when git says no."""
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    if done.returncode != 0:
        raise _broken(repository, done.stderr.decode(errors="replace"))
    return done.stdout.decode("utf-8", "surrogateescape")


def _broken(repository: Path, message: str) -> RepositoryError:
    lines = message.strip().splitlines() or ["git failed"]
    return RepositoryError(
        f"{repository} is not a usable git repository: {lines[0]}",
        remedy="check it with `git -C PATH log` and `git -C PATH fsck`; a repository needs at least one commit",
    )


def _parse(lines: IO[bytes]) -> Iterator[RawCommit]:
    commit: RawCommit | None = None
    hunk = RawHunk(old_path="", path="")
    for line in lines:
        if line.startswith(b"\x01"):
            if commit is not None:
                yield _finished(commit)
            commit = _commit_of(line)
        elif commit is None:
            continue
        elif line.startswith(b"diff --git "):
            hunk = RawHunk(old_path="", path=_path_of(line.rpartition(b" b/")[2]))
            commit.hunks.append(hunk)
        elif match := _HUNK.match(line):
            hunk = _next_hunk(commit, hunk, match)
            hunk.text = "".join(_body(lines, hunk))
        else:
            _file_line(hunk, line)
    if commit is not None:
        yield _finished(commit)


def _commit_of(line: bytes) -> RawCommit:
    fields = line[1:].decode(errors="replace").rstrip("\n").split("\x02", 4)
    return RawCommit(
        hash=fields[0],
        parents=tuple(fields[1].split()),
        author=fields[2],
        committed_at=float(fields[3]),
        subject=fields[4],
    )


def _next_hunk(commit: RawCommit, hunk: RawHunk, match: re.Match[bytes]) -> RawHunk:
    """The file's first hunk fills the one its header opened; further ones are added."""
    if hunk.old_lines or hunk.new_lines:
        hunk = RawHunk(old_path=hunk.old_path, path=hunk.path)
        commit.hunks.append(hunk)
    hunk.old_start, hunk.new_start = int(match[1]), int(match[3])
    hunk.old_lines = 1 if match[2] is None else int(match[2])
    hunk.new_lines = 1 if match[4] is None else int(match[4])
    return hunk


def _body(lines: IO[bytes], hunk: RawHunk) -> Iterator[str]:
    """Exactly the lines the hunk's header announces, whatever they look like."""
    room = MAX_HUNK_CHARACTERS
    for line in islice(lines, hunk.old_lines + hunk.new_lines):
        text = line.decode(errors="replace")
        if room > 0:
            yield text[:room]
        room -= len(text)
    if room < 0:
        yield f"\n[{-room} characters left out]\n"


def _file_line(hunk: RawHunk, line: bytes) -> None:
    """Lines between a file's header and its hunks."""
    if line.startswith(b"--- a/"):
        hunk.old_path = _path_of(line[6:])
    elif line.startswith(b"+++ b/"):
        hunk.path = _path_of(line[6:])
    elif line.startswith((b"rename from ", b"copy from ")):
        hunk.old_path = _path_of(line.partition(b" from ")[2])
        hunk.text += line.decode(errors="replace")
    elif line.startswith((b"rename to ", b"copy to ", b"old mode", b"new mode", b"Binary files")):
        hunk.text += line.decode(errors="replace")


def _path_of(raw: bytes) -> str:
    return raw.decode(errors="replace").rstrip("\n").rstrip("\t")


def _finished(commit: RawCommit) -> RawCommit:
    for hunk in commit.hunks:
        hunk.path = hunk.path or hunk.old_path
        hunk.old_path = hunk.old_path or hunk.path
    return commit
