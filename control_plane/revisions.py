"""A reviewer's edit of a proposal: some fields of its payload, and the diff that follows from them, computed anew."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from context_store import Store
from context_store.records import NewProposal, Principal, Proposal
from contracts.enums import EffectKind
from contracts.errors import UserInputError
from contracts.events import Scalar
from control_plane.effects.effect_kind import CodePayload
from control_plane.git import Git, require_commit
from control_plane.worktrees import BRANCH_PREFIX, patch

_EDITABLE = {
    EffectKind.RESUME_WITH_PATCH: {"overrides", "max_step", "code"},
    EffectKind.START_RUN: {"overrides", "max_step", "code"},
    EffectKind.PATCH_CODE: {"code"},
    EffectKind.PATCH_CONFIG: {"code"},
    EffectKind.PATCH_DATA: {"code"},
}


class Changes(BaseModel):
    """What is to be otherwise; a field that is not given stays. `overrides` and `code` are given whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    overrides: dict[str, Scalar] | None = None
    max_step: int | None = Field(default=None, ge=1)
    code: CodePayload | None = None


def revise(
    store: Store, proposal_id: str, changes: Changes, principal: Principal, comment: str, at: float, bound_hash: str
) -> Proposal:
    """The new, open proposal that takes the place of the old one. It needs its own approval.

    Raises UserInputError for a field this kind of proposal does not have, RepositoryError when the code cannot be
    made, and what `store.proposals.replace` raises.
    """
    proposal = store.proposals.get(proposal_id)
    given = changes.model_fields_set
    editable = _EDITABLE.get(proposal.kind, set())
    if not given <= editable:
        raise UserInputError(
            f"a proposal to {proposal.kind} has no {', '.join(sorted(given - editable))} to edit",
            remedy="edit " + (", ".join(sorted(editable)) if editable else "nothing: reject it and propose another"),
        )
    edited = _edited(store, proposal, changes)
    return store.proposals.replace(proposal_id, edited, principal.name, principal.role, comment, at, bound_hash)


def _edited(store: Store, proposal: Proposal, changes: Changes) -> NewProposal:
    payload: dict[str, Any] = {**proposal.payload}
    payload |= changes.model_dump(include=changes.model_fields_set & {"overrides", "max_step"})
    fields = {field.name: getattr(proposal, field.name) for field in dataclasses.fields(NewProposal)}
    if changes.code is not None:
        git = Git(Path(store.projects.get(payload["project_id"]).path))
        code = changes.code.named_in_full(git)
        before = require_commit(git, str(payload["code"]["base"]))
        _, _, fields["diff"] = patch(git, code.version)
        payload["code"] = code.model_dump(mode="json")
        fields["base_state"] = proposal.base_state.replace(before, code.base)
    if "branch" in payload and payload != {**proposal.payload}:
        payload["branch"] = _branch(proposal, payload)
    title = proposal.title.removesuffix(_EDITED) + _EDITED
    return NewProposal(**{**fields, "title": title, "payload": payload})


_EDITED = " (edited)"


def _branch(proposal: Proposal, payload: dict[str, Any]) -> str:
    """A branch of its own, since another tree is to be committed on it."""
    content = {name: value for name, value in payload.items() if name != "branch"}
    name = json.dumps([proposal.id, content], sort_keys=True)
    return f"{BRANCH_PREFIX}fix-{hashlib.sha256(name.encode()).hexdigest()[:10]}"
