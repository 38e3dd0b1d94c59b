"""The one seam to git: plumbing commands with the person's hooks, signing and prompts switched off."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from contracts.errors import DiskFull, EnvironmentFault, RepositoryError

_QUIET = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "commit.gpgSign=false",
    "advice.detachedHead=false",
)
_TIMEOUT_S = 300.0


class Git:
    """Runs git in `folder`. Failures are RepositoryError, or DiskFull, or EnvironmentFault when git is missing."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise RepositoryError(f"the folder {folder} does not exist", remedy="give the path of a project under git")
        self.folder = folder

    def __call__(self, *arguments: str, what: str = "", env: Mapping[str, str] | None = None) -> str:
        """Standard output of one git command, without the final newline. `what` names the intent in errors."""
        done = self.attempt(*arguments, env=env)
        if done.returncode != 0:
            raise self._error(arguments[0], what, done.stderr)
        return done.stdout.removesuffix("\n")

    def attempt(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run one git command and return it whatever its exit status is."""
        options = [part for setting in _QUIET for part in ("-c", setting)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        clean |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(env or {})}
        try:
            return subprocess.run(
                ["git", *options, *arguments],
                cwd=self.folder,
                env=clean,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="backslashreplace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise EnvironmentFault("git was not found", remedy="install git 2.38 or newer") from error
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault(
                f"git {arguments[0]} in {self.folder} did not end in {_TIMEOUT_S:.0f} s",
                remedy="look for another git process or a slow file system",
            ) from error

    def _error(self, command: str, what: str, stderr: str) -> RepositoryError | DiskFull:
        lines = [line for line in stderr.strip().splitlines() if not line.startswith("hint:")]
        said = lines[-1].removeprefix("fatal: ").removeprefix("error: ") if lines else "no message"
        if "No space left" in stderr:
            return DiskFull(f"git {command}: no space left for {self.folder}", remedy="free space and run it again")
        if "dubious ownership" in stderr:
            remedy = f"run: git config --global --add safe.directory {self.folder}"
        else:
            remedy = "check the repository with: git fsck"
        return RepositoryError(f"{what or 'git ' + command}: {said} (in {self.folder})", remedy=remedy)


def head_commit(project: Path, *, allow_uncommitted: bool) -> str:
    """The commit checked out in `project`. Refuses uncommitted changes, since a result must be addressable."""
    git = Git(project)
    require_repository(git)
    commit = require_commit(git, "HEAD")
    if not allow_uncommitted and git("status", "--porcelain", "--untracked-files=no", "--", "."):
        raise RepositoryError(
            f"{project} has uncommitted changes, so a run of it could not be repeated",
            remedy="commit them, or train the last commit with --last-commit",
        )
    return commit


def require_repository(git: Git) -> Path:
    """The folder that all worktrees of the repository share. RepositoryError when there is no repository."""
    done = git.attempt("rev-parse", "--path-format=absolute", "--git-common-dir")
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[:1]
        remedy = "run: git init && git add . && git commit"
        if "dubious ownership" in done.stderr:
            remedy = f"run: git config --global --add safe.directory {git.folder}"
        raise RepositoryError(f"{git.folder} is not a sound git repository: {' '.join(said)}", remedy=remedy)
    return Path(done.stdout.strip())


def require_commit(git: Git, name: str) -> str:
    """Full hash of the commit called `name`. RepositoryError when the repository lacks it."""
    done = git.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}")
    if done.returncode != 0:
        raise RepositoryError(
            f"the repository of {git.folder} has no commit '{name}'",
            remedy="fetch it, or check the repository with: git fsck",
        )
    return done.stdout.strip()
