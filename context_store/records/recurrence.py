"""What a new anomaly is like."""

from __future__ import annotations

from dataclasses import dataclass

from context_store.records.types import Evidence


@dataclass(frozen=True, kw_only=True)
class Precedent:
    """A stored case or imported incident that a new anomaly is like, with its diagnosis (R801-2.11).

    `is_strong`: nothing that is known speaks against the same cause; else `differs` says what does. A weak one is a
    reading hint, never a diagnosis. `investigation_id` is None for an imported incident.
    """

    investigation_id: str | None
    title: str
    diagnosis: str
    is_strong: bool
    matched: tuple[str, ...]
    differs: tuple[str, ...]
    evidence: Evidence
    score: float  # 0..1, share of statistics and layers in common; orders precedents of the same strength
