"""What a chat gives back: statements that cite evidence, and cards that open it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agents.tools import Row, ToolResult
from contracts.evidence import EvidenceRef

RULES = "rules"  # the brain without a model


class CardKind(StrEnum):
    SERIES = "series"  # detail: run_id, name, lo, hi, onset, markers [{step, title}]
    CASE = "case"  # detail: id
    PROPOSAL = "proposal"  # detail: id, state
    RUN = "run"  # detail: id


@dataclass(frozen=True, kw_only=True)
class Card:
    """Something to show beside the text; the page fetches its content by what `detail` (JSON values) names."""

    kind: CardKind
    title: str
    evidence: EvidenceRef
    detail: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Statement:
    text: str
    evidence: tuple[EvidenceRef, ...]

    def __str__(self) -> str:
        return f"{self.text} " + "".join(f"[{ref}]" for ref in self.evidence)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`known` False: the store does not know, and `gap` says what is missing; then there is no statement.

    `brain`: who wrote it, "rules" or a model's name. `removed`: claims of a model taken out because they cite nothing
    that exists or that says so, of `claimed` in all.
    """

    statements: tuple[Statement, ...] = ()
    cards: tuple[Card, ...] = ()
    gap: str = ""
    brain: str = RULES
    removed: int = 0
    claimed: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def known(self) -> bool:
        return bool(self.statements)

    @property
    def text(self) -> str:
        """Markdown."""
        if not self.known:
            return f"The store does not know: {self.gap}."
        return "\n".join(f"- {each}" for each in self.statements)

    @property
    def citations(self) -> tuple[EvidenceRef, ...]:
        return tuple(dict.fromkeys(ref for each in self.statements for ref in each.evidence))

    @property
    def removed_share(self) -> float:
        """0..1."""
        return self.removed / self.claimed if self.claimed else 0.0


def unknown(gap: str) -> Answer:
    return Answer(gap=gap)


def statements_of(rows: Iterable[Row]) -> tuple[Statement, ...]:
    return tuple(Statement(text=row.text, evidence=row.evidence) for row in rows)


def from_rows(rows: Iterable[Row], gap: str) -> Answer:
    """Known when there is a row."""
    statements = statements_of(rows)
    return Answer(statements=statements, gap="" if statements else gap)


def from_result(found: ToolResult) -> Answer:
    return from_rows(found.rows, found.nothing)
