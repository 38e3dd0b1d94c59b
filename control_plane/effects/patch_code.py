"""An approved change of a project's code: a commit on a branch of its own. Never a push, never the person's branch."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from context_store.records import Effect
from contracts.enums import EffectKind
from control_plane.effects.approved import require_same_diff
from control_plane.effects.effect_kind import DONE, CodePayload, Done, Landed, Result, Workshop, parse_payload
from control_plane.worktrees import Tree


class PatchPayload(BaseModel):
    """`branch` lies under `lathe/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project_id: str
    code: CodePayload
    branch: str


class PatchCode:
    kind = EffectKind.PATCH_CODE

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def check(self, effect: Effect) -> Tree:
        """ApprovalInvalid when the code would differ from what was approved."""
        payload = parse_payload(PatchPayload, effect)
        tree = self._workshop.materialise(payload.project_id, payload.code)
        require_same_diff(self._workshop.store, effect, tree)
        return tree

    def do(self, effect: Effect, tree: Tree | None) -> Done:
        assert tree is not None
        payload = parse_payload(PatchPayload, effect)
        self._workshop.worktrees.commit_on_branch(self._project(payload), tree, payload.branch)
        self._workshop.store.code.ingest(payload.project_id, self._project(payload))
        return DONE

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """RepositoryError when the branch does not hold the approved tree."""
        assert tree is not None
        payload = parse_payload(PatchPayload, effect)
        commit = self._workshop.worktrees.commit_on_branch(self._project(payload), tree, payload.branch)
        return {"branch": payload.branch, "commit": commit, "diff": tree.diff}

    def check_undo(self, done: Effect, effect: Effect) -> None:
        """Nothing: a branch that somebody moved on is kept by git itself."""

    def undo(self, done: Effect, effect: Effect, tree: Tree | None) -> Done:
        """Delete the branch. RepositoryError when it no longer stands at the commit that was made."""
        payload = parse_payload(PatchPayload, done)
        self._workshop.worktrees.delete_branch(self._project(payload), payload.branch, str(done.result["commit"]))
        return DONE

    def _project(self, payload: PatchPayload) -> Path:
        return Path(self._workshop.store.projects.get(payload.project_id).path)
