"""The form of a case and of its truth, and where they lie (README.md shows a whole one).

DIR/cases/ID/case.json          what everybody may read
DIR/cases/ID/project/           the project, a git repository
DIR/cases/ID/runs/              recorded segments (`segment-000/events.log`) and their checkpoints
DIR/cases/ID/data/manifest.json what the training read
DIR/truth/ID.json               opened by the grader only
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.enums import CauseKind
from contracts.errors import UserInputError
from contracts.events import Scalar

BRANCH = "main"
QUESTION = (
    "Is anything wrong with this run? If so: which change or circumstance brought it about, since which step, "
    "and does taking it back mend the run?"
)


Form = TypeVar("Form", bound=BaseModel)


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Segment(_Form):
    """One start or resume: the code, the last step, and the fields that were given beside the recipe."""

    commit: str
    max_step: int
    overrides: dict[str, Scalar] = Field(default_factory=dict)


class Case(_Form):
    """`case.json`. Cases of one `project_name` are of the same team and project, in the order of their ids.

    `trainer`: `embedded`, or `command` with a `lathe.toml` in the project, in which "python" stands for the interpreter
    and "machine" for a file outside the project that holds `machine`: what this machine does to the numbers.
    `needs`: modules without which that interpreter cannot run it.
    """

    format: Literal[1] = 1
    id: str = Field(pattern=r"^[a-z0-9-]+$")
    question: str = QUESTION
    project_name: str = Field(pattern=r"^[a-z0-9-]+$")
    trainer: Literal["embedded", "command"]
    seed: int
    segments: tuple[Segment, ...] = Field(min_length=1)
    machine: str = "0"
    needs: tuple[str, ...] = ()


class Truth(_Form):
    """`ID.json`. `targets` name the cause as Lathe names suspects: `commit:HASH`, `launch:FIELD`, `place:RANK`.

    `answer`: `cause` (find the targets), `nothing` (healthy) or `cannot_tell` (nobody can from what there is; targets
    are then what was really done). `first_step`: the first step that was trained with it.
    """

    id: str
    kind: str
    family: str
    answer: Literal["cause", "nothing", "cannot_tell"]
    targets: tuple[str, ...] = ()
    cause_kind: CauseKind = CauseKind.NONE
    first_step: int = 0
    late: bool = False
    hardness: tuple[str, ...] = ()
    recurrence: Literal["", "first", "repeat", "look_alike"] = ""


class Shelf:
    """A folder of cases with their truths beside them."""

    def __init__(self, folder: Path) -> None:
        self.cases = folder / "cases"
        self._truths = folder / "truth"

    def list(self) -> list[Case]:
        """By id. Raises UserInputError for a damaged one."""
        return [_read(Case, path) for path in sorted(self.cases.glob("*/case.json"))]

    def folder(self, case: Case) -> Path:
        return self.cases / case.id

    def truth(self, case_id: str) -> Truth:
        """For the grader."""
        return _read(Truth, self._truths / f"{case_id}.json")

    def hide(self, truth: Truth) -> None:
        self._truths.mkdir(parents=True, exist_ok=True)
        (self._truths / f"{truth.id}.json").write_text(truth.model_dump_json(indent=1) + "\n")

    def has(self, case_id: str) -> bool:
        """Whether the case is there, whole: its truth is written last."""
        return (self._truths / f"{case_id}.json").exists() and (self.cases / case_id / "case.json").exists()


def _read(form: type[Form], path: Path) -> Form:
    try:
        return form.model_validate(json.loads(path.read_text()))
    except (OSError, ValueError, ValidationError) as error:
        raise UserInputError(f"{path}: {error}", remedy="benchmarks/trainrca/README.md shows the form") from error
