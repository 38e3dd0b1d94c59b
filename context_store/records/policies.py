"""Policies, and the experiments that move on approvals."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.enums import AutonomyLevel, PolicyKind, Stage


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What an admin set for good, until it is revoked. `loop` is "" where it holds for all.

    autonomy   `level` of one loop; from ACT on `effects` (kinds) are approved by the policy itself, at most
               `num_effects` of them with `cpu_s` CPU seconds together
    four_eyes  `effects` need two distinct reviewers
    halt       nothing is begun
    """

    id: int
    kind: PolicyKind
    loop: str
    level: AutonomyLevel | None
    effects: tuple[str, ...]
    cpu_s: float
    num_effects: int
    reason: str
    set_by: str
    set_at: float
    revoked_by: str
    revoked_at: float | None

    @property
    def budget_id(self) -> str:
        """Of what the policy may approve."""
        return f"policy:{self.id}"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Where a dual loop stands. `sequence` counts the edges that were passed."""

    id: str
    title: str
    stage: Stage
    iteration: int
    sequence: int
    budget_id: str
    opened_by: str
    opened_at: float


@dataclass(frozen=True, kw_only=True)
class ExperimentStep:
    """One edge that was passed. `proposal_id` allowed an outer one; the reservation under `reservation_key`, "" where
    nothing is to be spent, pays for the work it leads to."""

    experiment_id: str
    sequence: int
    before: Stage
    after: Stage
    iteration: int
    proposal_id: str | None
    reservation_key: str
    note: str
    actor: str
    at: float
