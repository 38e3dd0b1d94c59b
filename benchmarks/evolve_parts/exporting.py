"""Question tasks and scaffolds as folders: what Lathe's own agents are asked, and their deciding code with its weights.

A task shows `asked.json`: the question, and all that the agent had read when it began to decide. What is right goes
into `grader.json` alone. The scaffold is the agent's own deciding file, unchanged, with its weights as `params.json`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.errors import UserInputError
from loops.evolve.archive import read_files
from loops.evolve.tasks import Split, Suite, read_suite

SCAFFOLDS = Path(__file__).parent / "scaffolds"
ASKED, ANSWER = "asked.json", "answer.json"
_LEAST = 3  # tasks of a split
_FACTORS = (0.0, 0.5, 0.8, 1.25, 2.0)  # of a weight as it stands
_WHO = ("-c", "user.name=Lathe", "-c", "user.email=lathe@localhost", "-c", "commit.gpgsign=false")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One task. `right`: what an answer may name; empty: nobody can tell. `within`: so many names count; `whole`: all
    of `right` must be among them, not only one. `said`: what the agent itself names now; empty: it cannot tell.
    """

    name: str
    split: Split
    words: str
    asked: Mapping[str, Any]
    right: tuple[str, ...]
    within: int = 1
    whole: bool = False
    said: tuple[str, ...] = ()

    @property
    def is_answered(self) -> bool:
        """Whether the agent itself answers rightly now."""
        first, right = set(self.said[: self.within]), set(self.right)
        if not right or not first:
            return not right and not first
        return right <= first if self.whole else bool(right & first)

    @property
    def grader(self) -> dict[str, Any]:
        return {
            "kind": "answer", "file": ANSWER, "right": list(self.right), "within": self.within, "whole": self.whole,
        }  # fmt: skip

    @property
    def oracle(self) -> dict[str, Any]:
        return {"named": list(self.right[: self.within])} if self.right else {"unknown": True}


def write_suite(folder: Path, questions: Sequence[Question]) -> Suite:
    """Raises UserInputError when a split would have too few tasks."""
    splits = {split: [each.name for each in questions if each.split is split] for split in Split}
    for split in (Split.FIX, Split.GATE, Split.SEALED):
        if len(splits[split]) < _LEAST:
            raise UserInputError(
                f"{len(splits[split])} tasks are too few for the split {split}", remedy="export more questions or cases"
            )
    for each in questions:
        task = {"kind": "question", "words": f"question\n{each.words}", "submit": [ANSWER], "visible": {}}
        _write(folder / each.name / "task.json", task)
        _write(folder / each.name / "grader.json", each.grader)
        _write(folder / each.name / "start" / ASKED, each.asked)
        _write(folder / each.name / "oracle" / ANSWER, each.oracle)
    _write(folder / "splits.json", splits)
    return read_suite(folder)


def _write(path: Path, body: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1) + "\n")


def scaffold(
    name: str, code: Path, weights: Mapping[str, float], bears_on: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """The files: ours of that name, the agent's `code`, and its weights with what may be set in their place.

    `bears_on`: causes of failures by weight; those of "" for all others.
    """
    lines = ['editable = ["graph.py", "deciding.py", "proposer.json"]']
    for key, value in weights.items():
        choices = sorted({round(value * factor, 6) + 0.0 for factor in _FACTORS} | {float(value)})
        causes = json.dumps(list(bears_on.get(key, bears_on[""])))
        lines.append(f"\n[parameters.{key}]\nvalues = {json.dumps(choices)}\nbears_on = {causes}")
    return {
        **read_files(SCAFFOLDS / name),
        "deciding.py": code.read_text(),
        "params.json": json.dumps({key: float(value) for key, value in weights.items()}, indent=2) + "\n",
        "scaffold.toml": "\n".join(lines) + "\n",
    }


def write_scaffold(folder: Path, files: Mapping[str, str]) -> None:
    """Under git, as `lathe evolve run` takes it. Raises UserInputError where something lies there already."""
    if folder.exists() and any(folder.iterdir()):
        raise UserInputError(f"{folder} is not empty", remedy="give a new folder")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for words in (("init", "-q"), ("add", "-A"), (*_WHO, "commit", "-q", "-m", "As the agent is")):
        subprocess.run(["git", *words], cwd=folder, check=True)
