"""Case files, and what was ruled out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from context_store.records.types import Evidence, Json
from contracts.enums import CauseKind, DiagnosticKind, InvestigationState, Scope, Verdict
from contracts.events import Scalar
from contracts.evidence import EvidenceRef
from contracts.team import SUPPLIER, TeamRole


@dataclass(frozen=True, kw_only=True)
class Anomaly:
    """A detector's finding. `onset` is an inclusive step interval; `probe` says how to measure it on another run, and
    who supplied it.

    `found_at` 0.0: now.
    """

    run_id: str
    kind: str
    series: tuple[str, ...]
    onset: tuple[int, int]
    severity: float
    statement: str
    evidence: Evidence
    probe: Json = field(default_factory=dict)
    found_at: float = 0.0
    id: int = 0

    @property
    def supplied_by(self) -> TeamRole:
        """The role of the team whose material it rests on; what was found before that was noted came from metrics."""
        return TeamRole(self.probe.get("supplied_by", TeamRole.METRIC_INSPECTOR))


@dataclass(frozen=True, kw_only=True)
class Investigation:
    """The case file of a loop, for the debug loop that of one or more anomalies of a run.

    `run_id` "": it is about no run. `round` counts the loop's proposals so far.
    """

    id: str
    run_id: str
    project_id: str
    loop: str
    owner: str
    anomaly_ids: tuple[int, ...]
    title: str
    state: InvestigationState
    verdict: Verdict | None
    scope: Scope | None
    statement: str
    cause_kind: CauseKind | None
    round: int
    opened_at: float


@dataclass(frozen=True, kw_only=True)
class CaseWork:
    """What a loop asked or measured in a case: `body` under its kind and key, as it was first said."""

    case_id: str
    kind: str
    key: str
    body: Json
    at: float


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A change or circumstance that could explain the anomaly. `status` None: not decided yet."""

    investigation_id: str
    key: str
    cause_kind: CauseKind
    title: str
    commits: tuple[str, ...]
    evidence: Evidence
    score: float
    rank: int
    status: Verdict | None = None
    reason: str = ""

    @property
    def supplied_by(self) -> TeamRole:
        """The role of the team whose work it is."""
        return SUPPLIER[self.cause_kind]


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """A repeatable execution for or against suspects. `measure` None until it was read."""

    investigation_id: str
    key: str
    kind: DiagnosticKind
    label: str
    suspect_keys: tuple[str, ...]
    run_id: str
    effect_key: str
    measure: float | None = None
    reading: str = ""


@dataclass(frozen=True, kw_only=True)
class VerdictRecord:
    """A verdict never stands without its scope. `effect` and `interval` in the unit of the probe's measure."""

    investigation_id: str
    verdict: Verdict
    scope: Scope
    suspect_keys: tuple[str, ...]
    num_reruns: int
    effect: float | None
    interval: tuple[float, float] | None
    statement: str
    would_overturn: str
    evidence: Evidence
    id: int = 0


@dataclass(frozen=True, kw_only=True)
class EffectSize:
    """How large an effect was or should have been: `value` with its interval, None where nothing says how sure it is.

    Positive means more of `what`; `unit` in words, for instance `bits per byte, lower is better`.
    """

    what: str
    value: float
    lo: float | None = None
    hi: float | None = None
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class NegativeResult:
    """What was tried or suspected, in which context, what happened, why it failed, what would reopen it (R801-2.5).

    `context`: configuration facts; `scale`, `data`, `code_version`: in words or ids. `diff_hash`: of the normalised
    diff that was tried (`negatives.hash_of_diff`). `superseded_by`: the stored result that took its place. `at`: when
    it was found out, 0.0: now.
    """

    claim: str
    intervention: str
    context: Mapping[str, Scalar]
    expected: str
    observed: str
    reason_class: str
    reason: str
    evidence: Evidence
    reopen_if: str
    investigation_id: str | None
    actor: str
    project_id: str | None = None  # None: that of the investigation's run
    scale: str = ""
    data: str = ""
    code_version: str = ""
    expected_effect: EffectSize | None = None
    observed_effect: EffectSize | None = None
    diff_hash: str = ""
    superseded_by: int | None = None
    at: float = 0.0
    id: int = 0


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """A stored negative result like the one asked about. `is_same`: the same change; else only a similar one."""

    negative: NegativeResult
    is_same: bool
    similarity: float  # cosine of what was claimed, done and where
    why: str


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Something stored that says otherwise. Both stay; `differs` names what is not the same in the two contexts."""

    reference: EvidenceRef
    statement: str
    differs: tuple[str, ...]
