"""What the API answers, validated once where it enters the process.

Fields the pages do not use are ignored, so that a newer API with more fields still works; a missing or
wrongly typed field raises, and the client turns that into a readable error.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

Scalar = str | int | float | bool | None
Onset = tuple[int, int]
_ENDED = ("expired", "rejected", "changes_asked", "superseded")  # of approvals that allowed nothing


class Record(BaseModel):
    """Base of all answers: frozen, unknown fields ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Run(Record):
    id: str
    project_id: str = ""
    name: str
    role: str
    state: str
    message: str = ""
    last_step: int
    created_at: datetime
    parent_run_id: str | None = None
    parent_step: int | None = None
    investigation_id: str | None = None


class Principal(Record):
    """Who the token belongs to."""

    name: str
    role: str

    @property
    def may_decide(self) -> bool:
        return self.role in ("reviewer", "admin")


class Halt(Record):
    """The policy that lets nothing begin."""

    reason: str
    set_by: str
    set_at: datetime


class Health(Record):
    ok: bool
    sentence: str
    halted: Halt | None = None
    needs_you: int
    quiet_cases: tuple[str, ...] = ()
    running: tuple[Run, ...] = ()
    version: str
    principal: Principal


class Segment(Record):
    number: int
    start_step: int
    code_version: str
    seed: int
    dp_size: int
    last_step: int
    started_at: datetime
    end_reason: str = ""
    message: str = ""
    remedy: str = ""


class Checkpoint(Record):
    segment: int
    step: int
    sha256: str
    size_bytes: int


class RunDetail(Record):
    run: Run
    segments: tuple[Segment, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    latest: dict[str, float] = {}


class Series(Record):
    """Points of one series. `values` may hold NaN and both infinities; nothing is hidden."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    segments: tuple[int, ...]

    def finite(self) -> list[float]:
        return [v for v in self.values if math.isfinite(v)]


class TimelineEvent(Record):
    step: int
    segment: int
    kind: str
    title: str
    at: datetime
    detail: dict[str, Any] = {}


class Investigation(Record):
    id: str
    run_id: str  # "" for a case of another loop that is about no run
    loop: str = "debug"
    anomaly_ids: tuple[int, ...] = ()
    title: str
    state: str
    verdict: str | None = None
    scope: str | None = None
    statement: str
    cause_kind: str | None = None
    round: int
    opened_at: datetime


class Anomaly(Record):
    id: int = 0
    kind: str
    series: tuple[str, ...]
    onset: Onset
    severity: float
    statement: str
    evidence: tuple[str, ...] = ()
    probe: dict[str, Any] = {}  # `order`: place in its case, 0 leads


class Suspect(Record):
    key: str
    cause_kind: str
    title: str
    commits: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    score: float
    rank: int
    status: str | None = None
    reason: str = ""


class SuppliedBy(Record):
    """Which role of the team supplied each suspect, by its key."""

    suspects: dict[str, str] = {}


class Diagnostic(Record):
    key: str
    kind: str
    label: str
    suspect_keys: tuple[str, ...] = ()
    run_id: str
    measure: float | None = None
    reading: str = ""


class Verdict(Record):
    id: int = 0
    verdict: str
    scope: str
    num_reruns: int
    effect: float | None = None
    interval: tuple[float, float] | None = None
    statement: str
    would_overturn: str
    evidence: tuple[str, ...] = ()


class Proposal(Record):
    id: str
    investigation_id: str | None
    kind: str
    title: str
    payload: dict[str, Any] = {}
    diff: str
    base_state: str
    risk: str
    verification: str
    evidence: tuple[str, ...] = ()
    expires_at: datetime
    bound_hash: str
    state: str
    decided_by: str = ""
    decided_at: datetime | None = None
    comment: str = ""

    replaces: str | None = None
    replaced_by: str | None = None


class Approval(Record):
    """`used_by`: the effect it allowed, or what ended it; `policy_id`: given by a policy, not by a person."""

    actor: str
    used_by: str = ""
    policy_id: int | None = None


class Standing(Record):
    """How far a proposal is on its way to being approved."""

    approvals: tuple[Approval, ...] = ()
    reviewers_needed: int

    @property
    def signed(self) -> tuple[str, ...]:
        """Who approved it as it is, and was not overruled since."""
        return tuple(each.actor for each in self.approvals if each.used_by not in _ENDED)

    @property
    def lacking(self) -> int:
        by_policy = any(each.policy_id is not None for each in self.approvals)
        return 0 if by_policy else max(0, self.reviewers_needed - len(self.signed))


class Effect(Record):
    """A request to the executor, and what came of it."""

    key: str = ""
    kind: str
    proposal_id: str | None = None
    investigation_id: str | None = None
    state: str
    message: str = ""
    remedy: str = ""
    result: dict[str, Any] = {}

    @property
    def changes_a_run(self) -> bool:
        return self.kind != "diagnostic_run"


class Negative(Record):
    id: int = 0
    claim: str
    intervention: str
    context: dict[str, Scalar] = {}
    expected: str
    observed: str
    reason_class: str
    reason: str
    reopen_if: str
    evidence: tuple[str, ...] = ()
    investigation_id: str | None = None
    actor: str


class Duplicate(Record):
    negative: Negative
    why: str


class Contradiction(Record):
    reference: str
    statement: str
    differs: tuple[str, ...]


class WholeNegative(Record):
    """With what is like it and what says otherwise."""

    negative: Negative
    duplicates: tuple[Duplicate, ...]
    contradictions: tuple[Contradiction, ...]


class Activity(Record):
    id: int
    at: datetime
    kind: str
    text: str
    investigation_id: str | None = None
    run_id: str | None = None
    detail: dict[str, Any] = {}


class Budget(Record):
    """Limits and what was used of them; 0 allows nothing."""

    id: str = ""
    parent_id: str | None = None
    closed: bool = False
    cpu_s: float
    reruns: int
    tokens: int = 0
    usd: float = 0.0
    wall_s: float = 0.0
    cpu_s_used: float
    reruns_used: int
    tokens_used: int = 0
    usd_used: float = 0.0
    wall_s_used: float = 0.0


class Case(Record):
    """One investigation with everything that belongs to it."""

    investigation: Investigation
    run: Run | None = None
    anomalies: tuple[Anomaly, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    negatives: tuple[Negative, ...] = ()
    effects: tuple[Effect, ...] = ()
    activity: tuple[Activity, ...] = ()
    report_markdown: str | None = None
    budget: Budget | None = None
    supplied_by: SuppliedBy = SuppliedBy()

    @property
    def its_run(self) -> Run:
        """Of a case that is about one, as all of the debug loop are."""
        assert self.run is not None
        return self.run

    @property
    def leading(self) -> Anomaly | None:
        """The finding that the case is about; the others began with it."""
        return min(self.anomalies, key=lambda anomaly: anomaly.probe.get("order", 0), default=None)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on this run; any further ones say how far it reaches."""
        return self.verdicts[0] if self.verdicts else None


class Project(Record):
    id: str
    path: str
    owner: str = ""


class ConfigChange(Record):
    key: str
    before: Scalar = None
    after: Scalar = None
    status: str


class Commit(Record):
    hash: str
    author: str
    subject: str


class CodeChange(Record):
    """`commits`: those of `after` that `before` lacks, oldest first."""

    before: str
    after: str
    commits: tuple[Commit, ...] = ()


class Difference(Record):
    """Of two segments. `not_recorded`: sections of which one side says nothing, so that no difference means nothing."""

    before: str
    after: str
    config: tuple[ConfigChange, ...] = ()
    effective: tuple[ConfigChange, ...] = ()
    mixture: tuple[ConfigChange, ...] = ()
    environment: tuple[ConfigChange, ...] = ()
    code: CodeChange
    not_recorded: tuple[str, ...] = ()


class Opened(Record):
    """`investigation` is None when nothing is wrong."""

    investigation: Investigation | None = None
    sentence: str
