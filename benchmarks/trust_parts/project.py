"""The project of a benchmark: a git repository with a small training, a configuration file, a stage of data, an
innocent commit and a harmful one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class SmallProject:
    """`bad` triples the balance losses. `origin` is a bare repository that nothing may ever reach."""

    folder: Path
    origin: Path
    good: str
    innocent: str
    bad: str

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)


def git(folder: Path, *arguments: str) -> str:
    """Standard output. Raises CalledProcessError."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_project(folder: Path) -> SmallProject:
    """Lay it out in a new folder, its origin beside it."""
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("small_training.py"), folder / "trainer" / "child.py")
    (folder / "recipe.py").write_text("SCALE = 1.0\n")
    (folder / "notes.py").write_text("TEXT = 'start'\n")
    (folder / "config.yaml").write_text("lr: 0.1\n")
    (folder / "stages").mkdir()
    (folder / "stages" / "clean.py").write_text("THRESHOLD = 0.9\n")
    git(folder, "init", "-q", "-b", "main")
    good = _commit(folder, "start")
    (folder / "notes.py").write_text("TEXT = 'innocent'\n")
    innocent = _commit(folder, "notes: say more")
    (folder / "recipe.py").write_text("SCALE = 3.0\n")
    bad = _commit(folder, "recipe: count in shares")
    origin = folder.with_name(f"{folder.name}-origin.git")
    git(folder, "clone", "-q", "--bare", str(folder), str(origin))
    git(folder, "remote", "add", "origin", str(origin))
    return SmallProject(folder=folder, origin=origin, good=good, innocent=innocent, bad=bad)


def _commit(folder: Path, subject: str) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")
