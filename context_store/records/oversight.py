"""Budgets, ledger, live feed and who may do what."""

from __future__ import annotations

from dataclasses import dataclass

from context_store.records.types import Evidence, Json
from contracts.enums import Role


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """`cpu_s_used` and `reruns_used` count settled spending plus open reservations."""

    id: str
    cpu_s: float
    reruns: int
    cpu_s_used: float
    reruns_used: int

    @property
    def cpu_s_left(self) -> float:
        return self.cpu_s - self.cpu_s_used

    @property
    def reruns_left(self) -> int:
        return self.reruns - self.reruns_used


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
