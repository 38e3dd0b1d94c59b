"""Lays out the demo project as a git repository: a base commit, harmless commits, and the fault among the last.

The same fault and seed always give the same hashes. The order of the harmless commits and the place of the fault
follow the seed. The main run is started at `early`, resumed at `middle`, and resumed again at `head`.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from control_plane.demo.changes import Change, apply
from control_plane.demo.faults import Fault
from control_plane.demo.innocent import INNOCENT
from control_plane.git import Git

TEMPLATE = Path(__file__).parent / "project"
NUM_EARLY = 3  # harmless commits before the first start of the main run
NUM_MIDDLE = 4  # between the first start and the first resume; all others lie between the two resumes

_AUTHORS = ("Mara Lind", "Ilya Petrov", "Chen Wei", "Sofia Rossi")
_FIRST_DAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class History:
    """The commits of a laid-out project, oldest first; `faulty` names those that carry the fault."""

    project: Path
    base: str
    commits: tuple[str, ...]
    faulty: tuple[str, ...]

    @property
    def early(self) -> str:
        return self.commits[NUM_EARLY - 1]

    @property
    def middle(self) -> str:
        return self.commits[NUM_EARLY + NUM_MIDDLE - 1]

    @property
    def head(self) -> str:
        return self.commits[-1]


def plan(fault: Fault, seed: int) -> tuple[Change, ...]:
    """The changes in commit order: harmless ones shuffled, the fault's at random places after `middle`."""
    rng = random.Random(seed)
    harmless = list(INNOCENT)
    rng.shuffle(harmless)
    settled, last = harmless[: NUM_EARLY + NUM_MIDDLE], harmless[NUM_EARLY + NUM_MIDDLE :]
    places = sorted(rng.sample(range(len(last) + 1), k=len(fault.changes(seed))))
    for offset, (place, change) in enumerate(zip(places, fault.changes(seed), strict=True)):
        last.insert(place + offset, change)
    return (*settled, *last)


def lay_out(project: Path, fault: Fault, seed: int) -> History:
    """Create the repository at `project`, or find it there when an earlier call finished.

    A half-written one of a killed call is made anew. Raises RepositoryError when git fails.
    """
    draft = project.with_name(project.name + ".draft")
    if not (project / ".git").is_dir():
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(TEMPLATE, draft, ignore=shutil.ignore_patterns("__pycache__"))
        _commit_all(draft, plan(fault, seed), seed)
        draft.rename(project)
    hashes = Git(project)("rev-list", "--reverse", "main").split()
    faulty = set(fault.changes(seed))
    pairs = zip(hashes[1:], plan(fault, seed), strict=True)
    return History(
        project=project,
        base=hashes[0],
        commits=tuple(hashes[1:]),
        faulty=tuple(commit for commit, change in pairs if change in faulty),
    )


def _commit_all(project: Path, changes: Sequence[Change], seed: int) -> None:
    git = Git(project)
    git("init", "--quiet", "-b", "main", env=_ISOLATED)
    for key, value in _LOCAL_CONFIG.items():
        git("config", key, value, env=_ISOLATED)
    rng = random.Random(f"people {seed}")
    when = _FIRST_DAY
    _commit(git, "Training recipe of the small mixture-of-experts model\n", _AUTHORS[0], when)
    for change in changes:
        apply(change, project)
        when += timedelta(minutes=rng.randint(45, 600))
        _commit(git, change.message, rng.choice(_AUTHORS), when)


def _commit(git: Git, message: str, author: str, when: datetime) -> None:
    email = author.lower().replace(" ", ".") + "@example.com"
    person = {"NAME": author, "EMAIL": email, "DATE": when.isoformat()}
    identity = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in person.items()}
    git("add", "--all", env=_ISOLATED)
    git("commit", "--quiet", "-m", message, env=identity | _ISOLATED)


_LOCAL_CONFIG = {"user.name": "Lathe demo", "user.email": "demo@example.com", "core.autocrlf": "false"}
_ISOLATED = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}  # the person's settings change no hash
