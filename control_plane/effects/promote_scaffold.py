"""An approved promotion of a scaffold: the ref `refs/lathe/scaffold/NAME` moves from one commit to another.

A compare-and-swap of git: it moves only from exactly the commit that the proposal was made on. Branches, tags and the
working tree stay as they are, and nothing is pushed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from context_store.records import Effect
from contracts.enums import EffectKind
from contracts.errors import ApprovalInvalid, RepositoryError
from control_plane.effects.approved import proposal_of
from control_plane.effects.effect_kind import DONE, Done, Landed, Result, Workshop, parse_payload
from control_plane.git import Git, require_commit
from control_plane.worktrees import Tree, exact_diff

Hash = Annotated[str, StringConstraints(pattern="^([0-9a-f]{40}|[0-9a-f]{64})$")]


class PromotePayload(BaseModel):
    """`base`: where the ref stands now, null when there is none yet. Both commits by their full hashes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    project_id: str
    name: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    base: Hash | None
    candidate: Hash

    @property
    def ref(self) -> str:
        return f"refs/lathe/scaffold/{self.name}"


class PromoteScaffold:
    kind = EffectKind.PROMOTE_SCAFFOLD

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def check(self, effect: Effect) -> None:
        """ApprovalInvalid when the ref moved, or the two commits do not differ by the approved diff."""
        payload = parse_payload(PromotePayload, effect)
        git = self._git(payload)
        stands = _stands_at(git, payload.ref)
        moved_by_us = effect.attempt > 1 and stands == payload.candidate
        if stands != payload.base and not moved_by_us:
            raise ApprovalInvalid(
                f"the scaffold {payload.name} stands at {_short(stands)}, not at {_short(payload.base)}",
                remedy="compare the candidate with what is there now and propose it again",
            )
        if promotion_diff(git, payload) != proposal_of(self._workshop.store, effect).diff:
            raise ApprovalInvalid(
                f"the candidate of effect {effect.key} is not the diff that was approved", remedy="propose it again"
            )

    def do(self, effect: Effect, tree: Tree | None) -> Done:
        """RepositoryError when somebody moved it at this very moment."""
        payload = parse_payload(PromotePayload, effect)
        _swap(self._git(payload), payload.ref, payload.base, payload.candidate, f"lathe: promoted by {effect.key}")
        return DONE

    def verify(self, effect: Effect, tree: Tree | None, landed: Landed | None) -> Result:
        """RepositoryError when it does not stand at the candidate."""
        payload = parse_payload(PromotePayload, effect)
        stands = _stands_at(self._git(payload), payload.ref)
        if stands != payload.candidate:
            raise RepositoryError(
                f"{payload.ref} stands at {_short(stands)}", remedy=f"look at it: git log {payload.ref}"
            )
        return {"ref": payload.ref, "base": payload.base, "candidate": payload.candidate}

    def check_undo(self, done: Effect, effect: Effect) -> None:
        """ApprovalInvalid when it has moved on since."""
        payload = parse_payload(PromotePayload, done)
        stands = _stands_at(self._git(payload), payload.ref)
        if stands != payload.candidate and not (effect.attempt > 1 and stands == payload.base):
            raise ApprovalInvalid(
                f"the scaffold {payload.name} has moved on to {_short(stands)}",
                remedy="propose what it should stand at and have that approved",
            )

    def undo(self, done: Effect, effect: Effect, tree: Tree | None) -> Done:
        """Back to where it stood before; away where it was not there. RepositoryError when somebody moved it."""
        payload = parse_payload(PromotePayload, done)
        _swap(self._git(payload), payload.ref, payload.candidate, payload.base, f"lathe: taken back by {effect.key}")
        return DONE

    def _git(self, payload: PromotePayload) -> Git:
        return Git(Path(self._workshop.store.projects.get(payload.project_id).path))


def promotion_diff(git: Git, payload: PromotePayload) -> str:
    """What changes; against the empty tree where there is no base. RepositoryError when a commit is not there."""
    empty = git("hash-object", "-w", "-t", "tree", "/dev/null")
    base = empty if payload.base is None else require_commit(git, payload.base)
    return exact_diff(git, base, require_commit(git, payload.candidate))


def _stands_at(git: Git, ref: str) -> str | None:
    done = git.attempt("rev-parse", "--verify", "--quiet", ref)
    return done.stdout.strip() if done.returncode == 0 else None


def _swap(git: Git, ref: str, before: str | None, after: str | None, why: str) -> None:
    """Idempotent: nothing happens when it stands at `after` already."""
    if _stands_at(git, ref) == after:
        return
    none = "0" * len(before or after or "")
    if after is None:
        git("update-ref", "-m", why, "-d", ref, before or none, what=f"taking {ref} away")
    else:
        git("update-ref", "--create-reflog", "-m", why, ref, after, before or none, what=f"moving {ref}")


def _short(commit: str | None) -> str:
    return "no commit" if commit is None else commit[:12]
