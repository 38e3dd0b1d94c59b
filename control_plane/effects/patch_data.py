"""An approved change of one stage of a project's data pipeline: its scripts or configuration, on a branch as with code.

The branch is made only after the stage's own check passed on the changed code. The check is a command of the proposal
(so it was approved too); after a crash it is run again, so it must be repeatable.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field, StringConstraints

from context_store.records import Effect
from contracts.enums import EffectKind
from contracts.errors import BackendFailure, UserInputError
from control_plane.effects.checking import Check, Checked, Checks
from control_plane.effects.effect_kind import Done, Landed, Result, Workshop
from control_plane.effects.patch_code import PatchCode, PatchPayload
from control_plane.worktrees import Tree, changed_files


class PatchDataPayload(PatchPayload):
    """`files`: the stage's files and folders, relative to the project. `check`: run there, must end with status 0.

    `check_cpu_s`: CPU seconds of the check with all that it starts, and with earlier tries that a crash cut short.
    """

    stage: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    files: tuple[str, ...] = Field(min_length=1)
    check: tuple[str, ...] = Field(min_length=1)
    check_timeout_s: float = Field(default=600.0, gt=0, le=24 * 3600.0)
    check_cpu_s: float = Field(default=600.0, gt=0, le=24 * 3600.0)


class PatchData(PatchCode):
    kind = EffectKind.PATCH_DATA
    payload_model = PatchDataPayload

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        self._checks = Checks(workshop.runs_folder.parent / "checks", workshop.spent)
        self._passed: dict[str, Checked] = {}

    def inspect(self, payload: PatchPayload, tree: Tree) -> dict[str, object]:
        """Stage and changed files. UserInputError when a file changes that is not the stage's."""
        assert isinstance(payload, PatchDataPayload)
        changed = changed_files(self._project(payload), tree)
        foreign = [file for file in changed if not _belongs(file, payload.files)]
        if foreign or not changed:
            raise UserInputError(
                f"the diff changes {', '.join(foreign) or 'nothing'}; the stage {payload.stage} has "
                f"{', '.join(payload.files)}",
                remedy="change files of the stage only, or propose a patch_code",
            )
        return {"stage": payload.stage, "files": list(changed)}

    def do(self, effect: Effect, tree: Tree | None) -> Done | None:
        """None while the check runs. BackendFailure when it does not pass: then there is no branch."""
        assert tree is not None
        payload = self._payload(effect)
        assert isinstance(payload, PatchDataPayload)
        if effect.key not in self._passed:
            checked = self._checks.run(effect.key, self._check_of(payload, effect.key, tree))
            if checked is None:
                return None
            if checked.status != 0:
                raise BackendFailure(
                    f"the check of stage {payload.stage} ended {checked.how}: {checked.last_line}",
                    remedy=f"read {checked.log}, then correct the change or its check and propose it again",
                )
            self._passed[effect.key] = checked
        return super().do(effect, tree)

    def _check_of(self, payload: PatchDataPayload, key: str, tree: Tree) -> Check:
        """A policy that approved it may have left fewer CPU seconds than it asks for."""
        reserved = self._workshop.store.budgets.reserved(key)
        cpu_s = payload.check_cpu_s if reserved is None else min(payload.check_cpu_s, reserved.cpu_s)
        return Check(command=payload.check, project=tree.project, timeout_s=payload.check_timeout_s, cpu_limit_s=cpu_s)

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """RepositoryError when the branch does not hold the approved tree."""
        checked = self._passed.pop(effect.key)
        said = {
            "status": checked.status,
            "wall_s": checked.wall_s,
            "cpu_s": checked.cpu_s,
            "log_sha256": checked.log_sha256,
        }
        return {**super().verify(effect, tree, landed), "check": said}


def _belongs(file: str, stage: tuple[str, ...]) -> bool:
    """The file itself, or something below a folder, is named."""
    names = {str(PurePosixPath(name)) for name in stage} - {".", "/"}
    path = PurePosixPath(file)
    return ".." not in path.parts and not names.isdisjoint({str(path), *map(str, path.parents)})
