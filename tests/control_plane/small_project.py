"""The project of these tests and what they do with it."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from contracts.errors import RepositoryError


@dataclass(frozen=True, kw_only=True)
class SmallProject:
    """Three commits: the stand-in training with a falling loss, an innocent note, and a loss that rises."""

    folder: Path
    good: str
    innocent: str
    bad: str


def git(folder: Path, *arguments: str) -> str:
    """Standard output of a git command with an identity."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RepositoryError(done.stderr, remedy="correct the test")
    return done.stdout.strip()


def commit(folder: Path, subject: str) -> str:
    """Commit everything and return the hash."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    """Wait for what must happen soon."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def make_project(folder: Path) -> SmallProject:
    """Lay it out in a new folder."""
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("stand_in.py"), folder / "trainer" / "child.py")
    (folder / "recipe.py").write_text("SLOPE = -0.01\n")
    git(folder, "init", "-q", "-b", "main")
    good = commit(folder, "start")
    (folder / "notes.md").write_text("innocent\n")
    innocent = commit(folder, "notes")
    (folder / "recipe.py").write_text("SLOPE = 0.5\n")
    return SmallProject(folder=folder, good=good, innocent=innocent, bad=commit(folder, "steeper"))


def descendant(part: str) -> psutil.Process:
    """A process below this one with `part` in its command line; one that ends while it is looked at is passed over."""
    ours = {each.pid for each in psutil.Process().children(recursive=True)}
    named = psutil.process_iter(["cmdline"])
    return next(each for each in named if each.pid in ours and part in " ".join(each.info["cmdline"] or ()))
