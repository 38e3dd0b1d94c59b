"""What a fault kind is given to break a training with: `apply(config, repo, data) -> Cause`.

`repo` commits edits; between two of its commits, and around them, innocent commits fall by themselves. `config` sets a
field in the file of the project, at the launch, or on the machine; `data` sets a field of the data's file.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from contracts.enums import CauseKind
from contracts.events import Scalar
from control_plane.demo.changes import Change, Edit
from control_plane.demo.changes import apply as write_change
from control_plane.git import Git

_AUTHORS = ("Mara Lind", "Ilya Petrov", "Chen Wei", "Sofia Rossi", "Ada Okoro")
_FIRST_DAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What a kind really did. `targets` empty with `cause_kind` none: nothing is wrong.

    `cannot_tell`: nothing that a reader of the case has tells it apart, so that saying so is the right answer.
    `delay_steps`: how long after it came into force it first changed anything.
    """

    targets: tuple[str, ...]
    cause_kind: CauseKind
    cannot_tell: bool = False
    delay_steps: int = 0


class Repo:
    """The project's history as it grows. Equal seeds give equal hashes."""

    def __init__(self, folder: Path, seed: int, decoys: Iterator[Change]) -> None:
        self.folder = folder
        self._git = Git(folder)
        self._rng = random.Random(f"people {seed}")
        self._when = _FIRST_DAY
        self._decoys = decoys
        self._gap = 0

    def begin(self) -> str:
        """The first commit: everything that lies in the folder."""
        self._git("init", "--quiet", "-b", "main", env=_ALONE)
        for key, value in {"user.name": "Team", "user.email": "team@example.com", "core.autocrlf": "false"}.items():
            self._git("config", key, value, env=_ALONE)
        return self._commit("The training as it was\n")

    def commit(self, subject: str, edits: Sequence[tuple[str, str, str]], body: str = "") -> str:
        """Commit (file, text that stands there once, its replacement) edits; returns `commit:HASH`.

        Innocent commits come first where more than one is made. Raises UserInputError when a text is not there once.
        """
        if self._gap:
            self.innocent(self._gap)
        made = tuple(Edit(path=path, before=before, after=after) for path, before, after in edits)
        self._gap = 1
        return f"commit:{self._make(Change(subject=subject, body=body, edits=made))}"

    def change(self, change: Change) -> str:
        """As `commit`, for a change that was written before."""
        return self.commit(change.subject, [(e.path, e.before, e.after) for e in change.edits], change.body)

    def innocent(self, count: int) -> None:
        """As many innocent commits; fewer where no more can be thought of."""
        for _ in range(count):
            if (change := next(self._decoys, None)) is not None:
                self._make(change)

    @property
    def head(self) -> str:
        return self._git("rev-parse", "HEAD")

    def _make(self, change: Change) -> str:
        for edit in change.edits:
            if not edit.before:  # a new file
                (self.folder / edit.path).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / edit.path).touch()
        old = [edit for edit in change.edits if edit.before]
        write_change(Change(subject=change.subject, edits=tuple(old)), self.folder)
        for edit in change.edits:
            if not edit.before:
                (self.folder / edit.path).write_text(edit.after)
        return self._commit(change.message)

    def _commit(self, message: str) -> str:
        author = self._rng.choice(_AUTHORS)
        self._when += timedelta(minutes=self._rng.randint(45, 600))
        email = author.lower().replace(" ", ".") + "@example.com"
        person = {"NAME": author, "EMAIL": email, "DATE": self._when.isoformat()}
        identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in person.items()}
        self._git("add", "--all", env=_ALONE)
        self._git("commit", "--quiet", "-m", message, env=identity | _ALONE)
        return self.head


@dataclass(kw_only=True)
class Config:
    """Settings of the broken segment. `launched` and `machine` are read by whoever trains it."""

    repo: Repo
    file: str
    launched: dict[str, Scalar] = field(default_factory=dict)
    machine: str = "0"

    def set(self, old: str, new: str, subject: str) -> str:
        """Replace a line of the config file and commit it; returns `commit:HASH`."""
        return self.repo.commit(subject, [(self.file, old, new)])

    def launch(self, key: str, value: Scalar) -> str:
        """Give a field at the resume, in no commit; returns `launch:FIELD`."""
        self.launched[key] = value
        return f"launch:{key}"


@dataclass(kw_only=True)
class Data:
    """The file of the project that says what is read."""

    repo: Repo
    file: str

    def set(self, old: str, new: str, subject: str) -> str:
        """Replace a line of the data's file and commit it; returns `commit:HASH`."""
        return self.repo.commit(subject, [(self.file, old, new)])


Apply = Callable[[Config, Repo, Data], Cause]


def copy_repository(source: Path, target: Path) -> None:
    """A clone that shares nothing with its source. Raises CalledProcessError."""
    command = ["git", "clone", "--quiet", "--no-hardlinks", str(source), str(target)]
    subprocess.run(command, check=True, capture_output=True)
