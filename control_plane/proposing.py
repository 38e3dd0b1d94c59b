"""Proposals that persons make: any effect that needs an approval, with its diff and base state computed here.

Nobody waits for such a proposal in a loop; once it is approved a worker asks for its effect (`request_approved`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from context_store import Store
from context_store.records import EffectRequest, Evidence, NewProposal, Principal, Proposal
from contracts.enums import EffectKind
from contracts.errors import UserInputError
from control_plane.effects.case_work import Seal
from control_plane.effects.effect_kind import CodePayload, LaunchPayload, source_launch
from control_plane.effects.notify import NotifyPayload
from control_plane.effects.open_seal import seal_of
from control_plane.effects.patch_code import PatchPayload
from control_plane.effects.patch_config import PatchConfigPayload
from control_plane.effects.patch_data import PatchDataPayload
from control_plane.effects.promote_scaffold import PromotePayload, promotion_diff
from control_plane.effects.resume_with_patch import ResumePayload
from control_plane.effects.run_control import RunPayload
from control_plane.git import Git
from control_plane.worktrees import patch

PAYLOADS: Mapping[EffectKind, type[BaseModel]] = {
    EffectKind.START_RUN: LaunchPayload,
    EffectKind.STOP_RUN: RunPayload,
    EffectKind.PAUSE_RUN: RunPayload,
    EffectKind.UNPAUSE_RUN: RunPayload,
    EffectKind.CHECKPOINT_RUN: RunPayload,
    EffectKind.RESUME_WITH_PATCH: ResumePayload,
    EffectKind.PATCH_CODE: PatchPayload,
    EffectKind.PATCH_CONFIG: PatchConfigPayload,
    EffectKind.PATCH_DATA: PatchDataPayload,
    EffectKind.PROMOTE_SCAFFOLD: PromotePayload,
    EffectKind.OPEN_SEAL: Seal,
    EffectKind.NOTIFY: NotifyPayload,
}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person wants done, in their words and as the payload of its kind."""

    kind: EffectKind
    payload: Mapping[str, Any]
    title: str
    risk: str
    verification: str
    evidence: Evidence = ()
    expires_in_s: float = 3 * 86400.0


def propose(store: Store, wish: Wish, principal: Principal, at: float) -> Proposal:
    """An open proposal. The same wish, while it is open, is the same proposal.

    Raises UserInputError for a kind that nobody proposes or a payload that does not fit it, RepositoryError when the
    code cannot be made, NotFound for an unknown project or run.
    """
    payload, diff, base_state = _bound(store, wish)
    proposal = store.proposals.put(
        NewProposal(
            investigation_id=None,
            kind=wish.kind,
            title=wish.title,
            payload=payload.model_dump(mode="json"),
            diff=diff,
            base_state=base_state,
            risk=wish.risk,
            verification=wish.verification,
            evidence=wish.evidence,
            expires_at=at + wish.expires_in_s,
            owner=principal.name,
        )
    )
    subject = f"proposal:{proposal.id}"
    store.ledger.append(principal.name, "proposed", subject, {"title": wish.title}, wish.evidence, at)
    store.activity.publish("approval", f"{principal.name} proposes: {wish.title}", detail={"proposal": proposal.id})
    return proposal


def request_approved(store: Store, now: float) -> int:
    """Ask for the effect of each approved proposal that no case waits for. Idempotent; returns how many there are."""
    waiting = store.proposals.approved_without_case(now)
    for proposal in waiting:
        store.effects.request(
            EffectRequest(
                key=f"apply:{proposal.id}",
                kind=proposal.kind,
                payload=proposal.payload,
                investigation_id=None,
                actor=f"person:{proposal.decided_by}",
                proposal_id=proposal.id,
            )
        )
    return len(waiting)


def _bound(store: Store, wish: Wish) -> tuple[BaseModel, str, str]:
    """(payload with full names, exact diff, base state)."""
    payload = _parsed(wish)
    match payload:
        case PromotePayload():
            git = Git(Path(store.projects.get(payload.project_id).path))
            return payload, promotion_diff(git, payload), f"{payload.ref} at {payload.base or 'no commit'}"
        case LaunchPayload() | PatchPayload():
            git = Git(Path(store.projects.get(payload.project_id).path))
            code: CodePayload = payload.code.named_in_full(git)
            base, _, diff = patch(git, code.version)
            bound, state = payload.model_copy(update={"code": code}), f"commit {base}"
            if isinstance(bound, ResumePayload):
                return _as_it_is_now(store, bound), diff, state + _checkpoint(store, bound)
            return bound, diff, state
        case Seal():
            if payload != seal_of(store, payload.case_id, payload.trial):
                raise UserInputError(
                    f"run {payload.case_id} does not stand so",
                    remedy=f"lathe evolve report {payload.case_id} --open-sealed",
                )
            return payload, "", f"{payload.case_id} at {payload.incumbent} after {payload.rounds} rounds"
        case RunPayload():
            return payload, "", f"run {store.runs.get(payload.run_id).id}"
    return payload, "", ""


def _parsed(wish: Wish) -> BaseModel:
    model = PAYLOADS.get(wish.kind)
    if model is None:
        raise UserInputError(f"nobody proposes {wish.kind}", remedy="one of: " + ", ".join(sorted(PAYLOADS)))
    try:
        return model.model_validate(dict(wish.payload))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        fields = ", ".join(model.model_fields)
        raise UserInputError(f"payload.{where}: {first['msg']}", remedy=f"{wish.kind} has: {fields}") from error


def _as_it_is_now(store: Store, payload: ResumePayload) -> ResumePayload:
    """With the segment that it derives from, and the seed and all overrides that follow from that one."""
    source = source_launch(store, payload.run_id, payload)
    if source is None:
        raise UserInputError(
            f"run {payload.run_id} has no segment to go on from at step {payload.start_step}",
            remedy="take source_segment from its segments, or restore its run folder",
        )
    return payload.model_copy(
        update={
            "source_segment": source.segment,
            "overrides": {**source.overrides, **payload.overrides},
            "seed": source.seed if payload.seed is None else payload.seed,
        }
    )


def _checkpoint(store: Store, payload: ResumePayload) -> str:
    """Its content, which the approval binds too."""
    for checkpoint in store.runs.checkpoints(payload.run_id):
        if (checkpoint.path, checkpoint.step) == (payload.start_checkpoint, payload.start_step):
            return f", checkpoint {checkpoint.sha256}"
    raise UserInputError(
        f"run {payload.run_id} has no checkpoint {payload.start_checkpoint} at step {payload.start_step}",
        remedy="take path and step of one of its checkpoints",
    )
