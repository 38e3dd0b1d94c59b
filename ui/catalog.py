"""What the API answers about triage, loops, data and evaluations, validated where it enters; as `records`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import Field

from ui.records import Onset, Record, Scalar


class Mark(Record):
    """What somebody said about a finding. `subject`: `anomaly:ID` or `investigation:ID`."""

    subject: str
    kind: str
    actor: str
    comment: str = ""
    at: datetime
    until: datetime | None = None


class DetectorRecord(Record):
    kind: str
    num_findings: int
    num_false_alarms: int


class Finding(Record):
    """An anomaly of a run; without `investigation_id` no case was opened for it."""

    id: int
    investigation_id: str | None = None
    onset: Onset
    severity: float
    verdict: str | None = None
    statement: str
    seen_before: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    supplied_by: str = ""


class Findings(Record):
    """`sentence`: what silence means, where nothing was found."""

    findings: tuple[Finding, ...] = ()
    sentence: str = ""


class Charter(Record):
    loop_class: str
    broken_links: tuple[str, ...]
    why_broken: str
    closes_at: str
    signal: str


class Loop(Record):
    name: str
    charter: Charter
    level: str
    cases: dict[str, int] = Field(default_factory=dict)


class Gate(Record):
    label: str
    value: float


class LoopScore(Record):
    """`lo`, `hi`: its 95 % interval, where it has one."""

    case_id: str
    group: str
    label: str
    value: float
    lo: float | None = None
    hi: float | None = None


class LoopScores(Record):
    unit: str
    gates: tuple[Gate, ...] = ()
    scores: tuple[LoopScore, ...] = ()


class LedgerEntry(Record):
    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any] = Field(default_factory=dict)
    evidence: tuple[str, ...] = ()

    @property
    def round(self) -> str:
        """The round of the case in which it was written, "" where the loop did not say."""
        return str(self.detail.get("step", "")).partition(".")[0]


class Stage(Record):
    key: str
    level: str
    title: str


class Pipeline(Record):
    id: str
    title: str
    stages: tuple[Stage, ...] = ()
    owner: str = ""


class StageTrace(Record):
    stage: str
    code_version: str
    num_in: int | None = None
    num_out: int | None = None


class Subset(Record):
    id: str
    pipeline_id: str
    source: str
    owner: str = ""
    trace: tuple[StageTrace, ...] = ()
    parents: tuple[str, ...] = ()
    num_documents: int | None = None
    num_tokens: int | None = None


class MixtureEvent(Record):
    segment: int
    step: int
    source: str
    before: float | None = None
    after: float | None = None
    declared: bool
    subset_id: str | None = None


class Mixture(Record):
    events: tuple[MixtureEvent, ...] = ()
    weights: dict[str, float] = Field(default_factory=dict)


class Score(Record):
    """`identity_key` is equal exactly for scores that may be compared."""

    id: int
    benchmark: str
    metric: str
    protocol: str
    checkpoint: str
    recipe: str = ""
    value: float
    stderr: float | None = None
    num_samples: int | None = None
    step: int | None = None
    run_id: str | None = None
    shots: int | None = None
    harness: str = ""
    identity_key: str


class Config(Record):
    segment: int
    declared: dict[str, Scalar] = Field(default_factory=dict)
    effective: dict[str, Scalar] = Field(default_factory=dict)


class WhyNode(Record):
    """`title` None: something refers to it, but it is not stored."""

    kind: str
    id: str
    title: str | None = None
    owner: str = ""

    @property
    def ref(self) -> str:
        return f"{self.kind}:{quote(self.id, safe=':/.')}"


class WhyLink(Record):
    """`nodes[source]` rests in this role on `nodes[target]`, or on the `slice` of it."""

    source: int
    role: str
    target: int
    slice: str = ""


class Why(Record):
    """`nodes[0]` is what was asked about."""

    nodes: tuple[WhyNode, ...]
    links: tuple[WhyLink, ...] = ()
    truncated: bool = False


class BrokenPoint(Record):
    row: int
    step: int


class LayerMap(Record):
    """A row a series, a column a part of the steps; `broken`: points that are not finite."""

    names: tuple[str, ...]
    steps: tuple[int, ...]
    values: tuple[tuple[float | None, ...], ...]
    broken: tuple[BrokenPoint, ...] = ()


class Hit(Record):
    """One text that was found by its words or its meaning."""

    kind: str
    reference: str
    title: str
    body: str = ""
    outcome: str = ""


class EvolutionRun(Record):
    """A run of the evolve loop."""

    case_id: str
    title: str
    state: str
    statement: str = ""
    rounds: int
    planned_rounds: int
    kept: int


class Evolution(Record):
    """One with its rounds; what they hold is shown as it is."""

    run: EvolutionRun
    summary: dict[str, Any]
    rounds: tuple[dict[str, Any], ...] = ()
    nodes: tuple[dict[str, Any], ...] = ()
    memory: dict[str, tuple[str, ...]]
    spent: dict[str, Any]
