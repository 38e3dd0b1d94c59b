"""The format of a task folder, and suites of them.

    NAME/task.json     {"kind", "words", "submit", "visible"}, optional "budget", "honey", "decoys": what an agent sees
    NAME/start/        the files its workspace begins with
    NAME/grader.json   what is expected; never enters the sandbox of an agent (kinds: inside/grade.py)
    NAME/oracle/       files that, laid over the start, must pass; the start itself must not
    splits.json        {"fix": [...], "gate": [...], "sealed": [...], "canary": [...]}

A suite's hash covers all files of all its tasks and of `inside/`: evaluator, tasks and budgets of a run are those of
one hash, or the run does not go on.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.errors import UserInputError

STARTER = Path(__file__).parent / "suite"
INSIDE = Path(__file__).parent / "inside"
_SHARED = frozenset({"train.csv", "test.csv", "predictions.csv", "asked.json", "answer.json"})  # each task of a kind


class Split(StrEnum):
    """fix: its traces are read; gate: nothing but the decision leaves it; sealed: opened once, at the end."""

    FIX = "fix"
    GATE = "gate"
    SEALED = "sealed"
    CANARY = "canary"  # labels that say nothing: more than chance is a leak


class TaskFile(BaseModel):
    """task.json"""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["bugfix", "terminal", "ml", "question"]
    words: str
    submit: tuple[str, ...] = Field(min_length=1)
    visible: dict[str, Any]
    budget: dict[str, int] = Field(default_factory=dict)
    honey: tuple[str, ...] = ()
    decoys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. `files` are those of its start; `grader` stays with whoever grades."""

    name: str
    file: TaskFile
    files: dict[str, str]
    grader: dict[str, Any]
    oracle: dict[str, str]

    @property
    def shown(self) -> dict[str, Any]:
        """What enters the sandbox of an agent."""
        return {**self.file.model_dump(), "files": self.files}


@dataclass(frozen=True, kw_only=True)
class Suite:
    tasks: dict[str, Task]
    splits: dict[Split, tuple[str, ...]]
    hash: str
    folder: Path

    def of(self, split: Split) -> tuple[str, ...]:
        """Names of the split's tasks."""
        return self.splits.get(split, ())

    def check(self) -> None:
        """Raises UserInputError where a run cannot do with it: read_suite takes any."""
        for split in (Split.FIX, Split.GATE, Split.SEALED):
            if not self.of(split):
                raise UserInputError(
                    f"{self.folder / 'splits.json'} names no {split} tasks",
                    remedy="a run needs fix, gate and sealed ones",
                )

    @property
    def unchanged(self) -> bool:
        """Whether tasks and evaluator lie there as they were read."""
        return _hash(self.folder, list(self.tasks)) == self.hash

    @property
    def secrets(self) -> frozenset[str]:
        """Names that no diff of a scaffold may hold: of tasks, and of files that not every task of a kind has."""
        files = {name for task in self.tasks.values() for name in (*task.files, *task.file.submit)}
        return frozenset({*self.tasks, *files} - _SHARED)


def read_task(folder: Path) -> Task:
    """Raises UserInputError that names the file and field which do not fit."""
    try:
        file = TaskFile.model_validate_json((folder / "task.json").read_text())
        grader = json.loads((folder / "grader.json").read_text())
    except ValidationError as error:
        first = error.errors()[0]
        raise UserInputError(
            f"{folder / 'task.json'}: {'.'.join(map(str, first['loc']))}: {first['msg']}", remedy="correct that field"
        ) from error
    except (OSError, ValueError) as error:
        raise UserInputError(
            f"{folder} is no task: {error}", remedy="a task has task.json, grader.json, start/ and oracle/"
        ) from error
    return Task(
        name=folder.name, file=file, files=_texts(folder / "start"), grader=grader, oracle=_texts(folder / "oracle")
    )


def read_suite(folder: Path = STARTER) -> Suite:
    """All tasks that splits.json names. Raises UserInputError; a task in two splits is refused."""
    try:
        named = json.loads((folder / "splits.json").read_text())
        splits = {Split(split): tuple(names) for split, names in named.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise UserInputError(
            f"{folder / 'splits.json'} cannot be read: {error}", remedy="it names the tasks of fix, gate and sealed"
        ) from error
    names = [name for split in splits.values() for name in split]
    if len(set(names)) < len(names):
        raise UserInputError("a task is in two splits", remedy="a task that was looked at cannot judge: keep it in one")
    return Suite(
        tasks={name: read_task(folder / name) for name in sorted(names)}, splits=splits, hash=_hash(folder, names),
        folder=folder,
    )  # fmt: skip


def _texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def _hash(folder: Path, names: list[str]) -> str:
    """Of the contents of the named tasks and of the evaluator."""
    digest = hashlib.sha256()
    places = [folder / "splits.json", *(folder / name for name in sorted(names)), INSIDE]
    for place in places:
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(place.parent)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
