"""What the API answers about what runs can become, validated where it enters; as `records`."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from ui.records import Investigation, Proposal, Record


class Change(Record):
    points: float
    low: float
    high: float


class Verdict(Record):
    verdict: str
    sentence: str
    base: Change
    sft: Change
    num_checkpoints: int
    num_seeds: int
    error_rate: float
    detectable: float


class RankRow(Record):
    checkpoint: str
    base: float
    base_rank: float
    sft: float
    sft_rank: float


class Rho(Record):
    rho: float
    low: float
    high: float


class Ranks(Record):
    """`refusal`: why there is no `spearman`."""

    rows: tuple[RankRow, ...]
    spearman: Rho | None = None
    refusal: str = ""


class Between(Record):
    """An estimate with its 95 % interval; an end that is null is unbounded."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Fit(Record):
    """`band`: (SFT steps, fit, low, high), also beyond what was tested."""

    start: Between
    first_score: float
    slope: Between
    band: tuple[tuple[float, float, float, float], ...]


class Learning(Record):
    """`scores`: a row a seed."""

    budgets: tuple[float, ...]
    scores: tuple[tuple[float, ...], ...]
    fit: Fit | None = None
    refusal: str = ""


class Best(Record):
    """The corrected maximum over protocols; `naive` is the largest mean. `raw`: files of the outputs by protocol."""

    protocol: str
    value: float
    low: float
    high: float
    naive: float
    correction: float
    means: dict[str, float]
    unparsed: dict[str, float] = Field(default_factory=dict)
    raw: dict[str, str] = Field(default_factory=dict)


class Saving(Record):
    target: float
    ratio: Between | None = None
    refusal: str = ""


class Crossing(Record):
    sentence: str


class Reading(Record):
    """Both curves over the checkpoints: `base` has one score each, `sft` one a seed."""

    steps: tuple[int, ...]
    tokens: tuple[int, ...]
    seeds: tuple[int, ...]
    base: tuple[float, ...]
    sft: tuple[tuple[float, ...], ...]
    base_raw: tuple[str, ...]
    sft_raw: tuple[tuple[str, ...], ...]
    marks_raw: dict[int, tuple[tuple[str, ...], ...]] = Field(default_factory=dict)
    bits_per_byte: tuple[dict[str, float], ...] = ()
    bits_raw: tuple[dict[str, str], ...] = ()
    verdict: Verdict
    ranks: Ranks
    learnability: dict[int, Learning]
    learnability_is: str
    maximum: dict[int, Best]
    maximum_sft: dict[int, Best]
    maximum_by_task: dict[int, dict[str, Best]] = Field(default_factory=dict)
    maximum_by_task_sft: dict[int, dict[str, Best]] = Field(default_factory=dict)
    saving: Saving
    crossing: Crossing | None = None
    protocol_rank_changes: tuple[tuple[str, str], ...] = ()
    protocol_rank_changes_sft: tuple[tuple[str, str], ...] = ()
    findings: dict[int, tuple[str, ...]] = Field(default_factory=dict)

    @field_validator(
        "marks_raw", "learnability", "maximum", "maximum_sft", "maximum_by_task", "maximum_by_task_sft", "findings"
    )
    @classmethod
    def _in_order(cls, by_step: dict[int, Any]) -> dict[int, Any]:
        """By step: neither the store nor JSON keeps the order of keys."""
        return dict(sorted(by_step.items()))


class Potential(Record):
    """`reading` null: not enough is measured yet."""

    case: Investigation
    reading: Reading | None = None
    measured: int
    pieces: int


class Outputs(Record):
    file: str
    rows: tuple[dict[str, Any], ...]


class Effect(Record):
    """Mean of paired differences with its 95 % interval."""

    mean: float
    low: float
    high: float
    num_pairs: int


class Problems(Record):
    found: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    carried_over: tuple[str, ...] = ()


class Finalist(Record):
    name: str
    difference: Effect
    base_difference: Effect
    problems: Problems


class Curves(Record):
    steps: tuple[int, ...]
    tokens: tuple[int, ...]
    base: tuple[float, ...]
    sft: tuple[tuple[float, ...], ...]


class Candidate(Record):
    name: str
    overrides: dict[str, Any] = Field(default_factory=dict)
    why: str = ""
    evidence: tuple[str, ...] = ()


class Pilot(Record):
    candidate: str
    rung: int
    seed: int
    base_raw: str = ""
    tiny_raw: str = ""
    bits_raw: dict[str, str] = Field(default_factory=dict)


class DecisionRecord(Record):
    """`curves` null: an earlier decision, of a run whose potential was not measured. `left_out`: a sentence each."""

    choice: str
    sentence: str
    run_id: str
    scope: str
    curves: Curves | None = None
    candidates: tuple[Candidate, ...] = ()
    left_out: tuple[str, ...] = ()
    pilots: tuple[Pilot, ...] = ()
    finalists: tuple[Finalist, ...] = ()


class Decision(Record):
    case: Investigation
    record: DecisionRecord
    proposals: tuple[Proposal, ...] = ()
