"""What a method says of a case, and what is known of a case before anybody says anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAMED = "named"  # a cause without any re-run: an assertion all the same


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`named`: what the method asserts to be the cause, whole. `ranking`: all suspects, the first one first.

    `verdict`: `proven`, `named`, `cannot_tell` or `nothing_found`. `found_at`: the first step at which an alarm would
    have been raised. `fix_held` None: no fix was applied. `seconds`: with those of re-runs that came from the cache.
    """

    verdict: str
    named: tuple[str, ...] = ()
    ranking: tuple[str, ...] = ()
    found_at: int | None = None
    reruns: int = 0
    seconds: float = 0.0
    fix_held: bool | None = None
    statement: str = ""

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Answer:
        return cls(**{**fields, "named": tuple(fields["named"]), "ranking": tuple(fields["ranking"])})


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change in force at the onset, newest last. `words`: its paths, symbols and fields. `jump`: |log2| of the
    largest ratio of a field's new value to its old one, 0 without fields."""

    key: str
    cause_kind: str
    substance: str
    words: tuple[str, ...]
    jump: float
    num_lines: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What every method starts from. `symptoms`: kinds and series of the findings; empty: nothing was found."""

    case_id: str
    trainer: str
    symptoms: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    found_at: int | None = None
    seconds: float = 0.0

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Facts:
        changes = tuple(Change(**{**each, "words": tuple(each["words"])}) for each in fields["changes"])
        return cls(**{**fields, "symptoms": tuple(fields["symptoms"]), "changes": changes})
