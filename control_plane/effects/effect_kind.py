"""What every kind of effect implements, and what all of them work with.

The executor may die at any point and somebody claims the effect again; so `check` only looks, `do` finds what it did
before (the segment that belongs to the effect's key, the branch with the same tree) and `verify` reads what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from context_store import Store
from context_store.records import Effect
from contracts.backend import Launch, Outcome
from contracts.enums import EffectKind
from contracts.errors import NotFound, UserInputError
from contracts.events import Scalar
from control_plane.backends.metered import SpentNotes
from control_plane.git import Git, require_commit
from control_plane.run_folders import read_launch
from control_plane.worktrees import CodeVersion, Tree, Worktrees

Result = Mapping[str, Any]
P = TypeVar("P", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Store, code versions on disk, the folder of runs, and notes of what effects spend.

    `environment`: of processes that open the same Lathe.
    """

    store: Store
    worktrees: Worktrees
    runs_folder: Path
    spent: SpentNotes
    environment: Mapping[str, str] = field(default_factory=dict)

    def materialise(self, project_id: str, code: CodePayload) -> Tree:
        """Check out what a payload names."""
        project = self.store.projects.get(project_id)
        return self.worktrees.materialise(Path(project.path), code.version)

    def source_launch(self, run_id: str, payload: LaunchPayload) -> Launch | None:
        """As the function `source_launch`."""
        return source_launch(self.store, run_id, payload)


class Done(Enum):
    """What `do` returns when there is no training to wait for."""

    DONE = "done"


DONE = Done.DONE
RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"  # it names a folder


@dataclass(frozen=True, kw_only=True)
class Landed:
    """A training that `do` asked for, and how it ended."""

    launch: Launch
    outcome: Outcome


class EffectHandler(Protocol):
    """One kind of effect. Any LatheError from its methods ends the effect; NotPermitted means refused."""

    @property
    def kind(self) -> EffectKind: ...

    def check(self, effect: Effect) -> Tree | None:
        """Look whether the effect can and may be carried out; changes nothing but the checkout that it returns."""
        ...

    def do(self, effect: Effect, tree: Tree | None) -> Launch | Done | None:
        """Everything but the training itself, which the executor runs; None asks to be called again soon."""
        ...

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """The result, after looking whether what should be there is there. `landed` None: there was no training."""
        ...


class CodePayload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str
    revert: tuple[str, ...] = ()
    pick: tuple[str, ...] = ()
    diff: str = ""

    @property
    def version(self) -> CodeVersion:
        return CodeVersion(base=self.base, revert=self.revert, pick=self.pick, diff=self.diff)

    def named_in_full(self, git: Git) -> CodePayload:
        """With full hashes, so that a short name cannot come to mean another commit."""
        lists = {name: tuple(require_commit(git, each) for each in getattr(self, name)) for name in ("revert", "pick")}
        return CodePayload(base=require_commit(git, self.base), diff=self.diff, **lists)


class LaunchPayload(BaseModel):
    """Fields that all kinds share; `start_step` is that of the checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project_id: str
    run_id: str = Field(pattern=RUN_ID)
    code: CodePayload
    overrides: dict[str, Scalar] = Field(default_factory=dict)
    start_checkpoint: str = ""
    start_step: int = Field(default=0, ge=0)
    max_step: int | None = None
    seed: int | None = None
    source_segment: int | None = Field(default=None, ge=0)  # whose seed and overrides hold where nothing is said
    entry: str = "recipe:recipe"


def source_launch(store: Store, run_id: str, payload: LaunchPayload) -> Launch | None:
    """What the segment that the payload derives from was started with; None when unknown.

    That is `source_segment`; a payload without one means the newest segment that begins at or before its step.
    """
    run = store.runs.get(run_id)
    number = payload.source_segment
    if number is None:
        begun = [each.number for each in store.runs.segments(run_id) if each.start_step <= payload.start_step]
        number = max(begun, default=None)
    try:
        return None if number is None else read_launch(Path(run.folder), number)
    except NotFound:
        return None


def parse_payload(model: type[P], effect: Effect) -> P:
    """The typed payload. UserInputError names the field that does not fit."""
    try:
        return model.model_validate(dict(effect.payload))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserInputError(
            f"the payload of effect {effect.key}: {where}: {first['msg']}",
            remedy="request it again with that field corrected",
        ) from error


def launch_of(payload: LaunchPayload, source: Launch | None, tree: Tree, folder: Path, segment: int) -> Launch:
    """The launch of a payload; what it leaves open (seed, overrides) is as in `source`, the segment it derives from."""
    return Launch(
        run_id=payload.run_id,
        segment=segment,
        run_folder=str(folder),
        project=str(tree.project),
        code_version=tree.commit,
        entry=payload.entry,
        overrides={**(source.overrides if source else {}), **payload.overrides},
        seed=payload.seed if payload.seed is not None or source is None else source.seed,
        start_checkpoint=payload.start_checkpoint,
        max_step=payload.max_step,
    )


def result_of(tree: Tree | None, landed: Landed | None) -> dict[str, Any]:
    """The part of the result that all trainings share."""
    assert tree is not None
    assert landed is not None
    outcome = landed.outcome
    return {
        "run_id": outcome.run_id,
        "reason": outcome.reason,
        "last_step": outcome.last_step,
        "message": outcome.message,
        "cpu_s": outcome.cpu_s,
        "tree": tree.tree,
        "commit": tree.commit,
        "diff": tree.diff,
    }
