"""What somebody may approve, and what is carried out."""

from __future__ import annotations

from dataclasses import dataclass

from context_store.records.types import Evidence, Json
from contracts.enums import EffectKind, EffectState, ProposalState


@dataclass(frozen=True, kw_only=True)
class NewProposal:
    """A change somebody may approve. What an approval binds: kind, payload, diff, base_state and expires_at.

    `owner` "": that of the run that its case is about, else whoever opened the store.
    """

    investigation_id: str | None
    kind: EffectKind
    title: str
    payload: Json
    diff: str
    base_state: str
    risk: str
    verification: str
    evidence: Evidence
    expires_at: float
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Proposal(NewProposal):
    """`id` and `bound_hash` follow from the content: the same proposal made twice is one proposal.

    `replaces`: what it is an edit of; `replaced_by`: the edit that took its place (state SUPERSEDED).
    """

    id: str
    bound_hash: str
    state: ProposalState
    created_at: float
    decided_by: str = ""
    decided_at: float | None = None
    comment: str = ""
    replaces: str | None = None
    replaced_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Approval:
    """Allows one effect with exactly this hash, once.

    `used_by`: the effect's key, "" while unused, or what ended it: "expired", "rejected", "changes_asked",
    "superseded". `policy_id`: given by a policy, in the name of the admin who set it, instead of by a person.
    """

    id: int
    proposal_id: str
    bound_hash: str
    actor: str
    comment: str
    at: float
    expires_at: float
    used_by: str = ""
    policy_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class EffectRequest:
    """Asks the executor to act. `key` makes it happen once however often it is requested."""

    key: str
    kind: EffectKind
    payload: Json
    investigation_id: str | None
    actor: str
    proposal_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Effect(EffectRequest):
    """`attempt` counts claims; from 2 on an earlier worker lost its lease and the work may be half done."""

    state: EffectState
    worker: str
    lease_until: float | None
    attempt: int
    result: Json
    message: str
    remedy: str
    requested_at: float
    finished_at: float | None
