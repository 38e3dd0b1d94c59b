"""What an import did, or in a dry run would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from context_store.importers.items import Column, Problem
from contracts.errors import LatheError


@dataclass(kw_only=True)
class RunReport:
    """`num_points`: what the source has; `num_new`: what the store did not have yet (None in a dry run)."""

    run_id: str
    name: str
    project_id: str
    origin: str
    num_segments: int = 0
    first_step: int | None = None
    last_step: int | None = None
    num_points: int = 0
    num_new: int | None = None
    num_facts: int = 0
    num_negatives: int = 0
    num_scores: int = 0
    state: str = ""
    series: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)  # our name -> the source's

    def see(self, columns: Mapping[str, Column]) -> None:
        """Count points by names of the store."""
        lo = min(int(steps.min()) for steps, _ in columns.values())
        hi = max(int(steps.max()) for steps, _ in columns.values())
        self.first_step = lo if self.first_step is None else min(self.first_step, lo)
        self.last_step = hi if self.last_step is None else max(self.last_step, hi)
        self.num_points += sum(len(steps) for steps, _ in columns.values())
        self.series |= columns.keys()


@dataclass(frozen=True, kw_only=True)
class SourceReport:
    """One source: files that were read together as one format. `failure`: why the rest of it was left out."""

    format: str
    files: Sequence[str]
    runs: Sequence[RunReport]
    problems: Sequence[Problem]
    failure: LatheError | None = None


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A file that holds no training data that we know, with the reason and what to do instead."""

    file: str
    reason: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Report:
    sources: Sequence[SourceReport]
    refused: Sequence[Refused]

    @property
    def runs(self) -> list[RunReport]:
        return [run for source in self.sources for run in source.runs]

    @property
    def problems(self) -> list[Problem]:
        return [problem for source in self.sources for problem in source.problems]

    @property
    def failures(self) -> list[SourceReport]:
        return [source for source in self.sources if source.failure is not None]
