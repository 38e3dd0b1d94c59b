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
    """Also the base of what changes only some of a project's files: those say which in `inspect`."""

    kind = EffectKind.PATCH_CODE
    payload_model: type[PatchPayload] = PatchPayload

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def check(self, effect: Effect) -> Tree:
        """ApprovalInvalid when the code would differ from what was approved."""
        payload = self._payload(effect)
        tree = self._workshop.materialise(payload.project_id, payload.code)
        require_same_diff(self._workshop.store, effect, tree)
        self.inspect(payload, tree)
        return tree

    def inspect(self, payload: PatchPayload, tree: Tree) -> dict[str, object]:
        """What is to be known about the change. UserInputError when this kind of effect may not make it."""
        return {}

    def do(self, effect: Effect, tree: Tree | None) -> Done | None:
        assert tree is not None
        payload = self._payload(effect)
        self._workshop.worktrees.commit_on_branch(self._project(payload), tree, payload.branch)
        self._workshop.store.code.ingest(payload.project_id, self._project(payload))
        return DONE

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """RepositoryError when the branch does not hold the approved tree."""
        assert tree is not None
        payload = self._payload(effect)
        commit = self._workshop.worktrees.commit_on_branch(self._project(payload), tree, payload.branch)
        facts = self.inspect(payload, tree)
        return {"branch": payload.branch, "commit": commit, "tree": tree.tree, "diff": tree.diff, **facts}

    def check_undo(self, done: Effect, effect: Effect) -> None:
        """Nothing to look at: a branch that moved on is refused when it is to be deleted."""

    def undo(self, done: Effect, effect: Effect, tree: Tree | None) -> Done:
        """Delete the branch. RepositoryError when it no longer stands at the commit that was made."""
        payload = self._payload(done)
        self._workshop.worktrees.delete_branch(self._project(payload), payload.branch, str(done.result["commit"]))
        return DONE

    def _payload(self, effect: Effect) -> PatchPayload:
        return parse_payload(self.payload_model, effect)

    def _project(self, payload: PatchPayload) -> Path:
        return Path(self._workshop.store.projects.get(payload.project_id).path)
