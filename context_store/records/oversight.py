"""Budgets, ledger, live feed and who may do what."""

from __future__ import annotations

from dataclasses import dataclass, fields

from context_store.records.types import Evidence, Json
from contracts.enums import Role


@dataclass(frozen=True, kw_only=True)
class Amount:
    """What may be spent, in every currency there is; 0 means nothing."""

    cpu_s: float = 0.0
    reruns: int = 0
    tokens: int = 0
    usd: float = 0.0
    wall_s: float = 0.0

    def exceeds(self, other: Amount) -> bool:
        """True unless it is at most `other` in every currency; what is not a number always exceeds."""
        return any(not getattr(self, each.name) <= getattr(other, each.name) for each in fields(Amount))

    def __sub__(self, other: Amount) -> Amount:
        return Amount(**{each.name: getattr(self, each.name) - getattr(other, each.name) for each in fields(Amount)})

    def __str__(self) -> str:
        parts = [(self.cpu_s, "CPU s"), (self.wall_s, "s"), (self.usd, "USD")]
        words = [f"{value:.1f} {unit}" for value, unit in parts if value]
        counts = [f"{value} {unit}" for value, unit in ((self.reruns, "re-runs"), (self.tokens, "tokens")) if value]
        return ", ".join([*words, *counts]) or "nothing"


@dataclass(frozen=True, kw_only=True)
class BudgetState(Amount):
    """The limits of a budget. `..._used` counts what was spent, open reservations and what children hold.

    `parent_id`: whose reservation this budget is. A closed budget has given back what it did not use.
    """

    id: str
    parent_id: str | None = None
    closed: bool = False
    cpu_s_used: float = 0.0
    reruns_used: int = 0
    tokens_used: int = 0
    usd_used: float = 0.0
    wall_s_used: float = 0.0

    @property
    def used(self) -> Amount:
        return Amount(**{each.name: getattr(self, f"{each.name}_used") for each in fields(Amount)})

    @property
    def left(self) -> Amount:
        return self - self.used

    @property
    def cpu_s_left(self) -> float:
        return self.left.cpu_s

    @property
    def reruns_left(self) -> int:
        return self.left.reruns


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """Who did what on which evidence. Never changed or removed."""

    id: int
    at: float
    actor: str
    action: str
    subject: str
    detail: Json
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class Activity:
    """One message of the live feed. `kind`: progress, finding or approval. Ids grow in commit order."""

    id: int
    at: float
    kind: str
    text: str
    investigation_id: str | None
    run_id: str | None
    detail: Json


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who a token speaks for."""

    name: str
    role: Role
