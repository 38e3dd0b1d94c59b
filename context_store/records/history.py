"""What changed: timeline events, commits, hunks."""

from __future__ import annotations

from dataclasses import dataclass, field

from context_store.records.types import Json
from contracts.enums import TimelineKind


@dataclass(frozen=True, kw_only=True)
class TimelineEvent:
    """A step-indexed change or happening.

    `detail` of changes that ingest found between or inside segments: {"key", "before", "after", "source"} with source
    declared or effective; of kind code: {"before", "after"} commits; of kind resume: {"from_checkpoint", "start_step"}.
    """

    run_id: str
    segment: int
    step: int
    kind: TimelineKind
    title: str
    detail: Json = field(default_factory=dict)
    at: float = 0.0
    id: int = 0


@dataclass(frozen=True, kw_only=True)
class Commit:
    """`ordinal` grows along the topological order in which commits were ingested: parents come first."""

    hash: str
    parents: tuple[str, ...]
    author: str
    committed_at: float
    subject: str
    ordinal: int


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """One change of one file, without context lines (`git -U0`). `symbols`: Python names it touches, "Class.method".

    `old_path` differs from `path` when the file was renamed.
    """

    commit: str
    path: str
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    symbols: tuple[str, ...]
    text: str
    old_path: str = ""
