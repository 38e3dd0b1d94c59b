"""What a reader finds in a source, in the order in which it finds it.

A reader yields, for each run, one `FoundRun`, then for each segment a `FoundSegment` followed by what belongs to it.
Columns may come in pieces of any size; a piece is never larger than PIECE_POINTS, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.enums import RunState, TimelineKind
from contracts.events import Scalar

PIECE_POINTS = 400_000
Column = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps, values; parallel


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """`key` is the run's identity inside its project: it stays when the source grows. `origin`: where it lies.

    `names`: names of this source -> ours, where they mean something else than usual (series_names).
    """

    key: str
    name: str
    project: str
    origin: str
    parent: tuple[str, str] | None = None  # name and key of the run it was forked from
    parent_step: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FoundSegment:
    """One start or resume. `start_step`: steps completed before it, as far as the source shows.

    `started_at` in unix seconds, 0.0 when the source has no clock. `config` flat with dotted keys. `start`: what tells
    it from every other start of the run, whatever else is given with it and however it grows; "" when nothing does.
    `origin`: where it lies, "" when that is the run's. `is_damaged`: only a part of it could be read.
    `config_came_later`: the source keeps one configuration for all starts, and this one is not the last.
    """

    number: int
    start_step: int
    config: Mapping[str, Scalar] = field(default_factory=dict)
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    code_version: str = ""
    seed: int = 0
    start_checkpoint: str = ""
    started_at: float = 0.0
    start: str = ""
    origin: str = ""
    is_damaged: bool = False
    config_came_later: bool = False


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Points of the current segment, by the names of the source."""

    columns: Mapping[str, Column]

    @property
    def num_points(self) -> int:
        return sum(len(steps) for steps, _ in self.columns.values())


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something that the source says happened or changed. `at` 0.0: it does not say when."""

    step: int
    kind: TimelineKind
    title: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the current segment ended, as far as the source says."""

    state: RunState
    message: str = ""
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class FoundNegative:
    """Something that was tried and did not hold; belongs to the current run and rests on its fact with this title."""

    fact: Fact
    claim: str
    intervention: str
    observed: str
    reason_class: str
    reason: str
    expected: str = ""
    reopen_if: str = ""
    context: Mapping[str, Scalar] = field(default_factory=dict)
    scale: str = ""
    code_version: str = ""
    effect: tuple[str, float, float] | None = None  # quantity, before, after


@dataclass(frozen=True, kw_only=True)
class FoundScore:
    """One number of an evaluation, with what decides what it may be compared with (records.NewScore).

    `checkpoint`: what was evaluated, as the source says it, "" when it does not. `raw`: the file of single outputs.
    """

    benchmark: str
    metric: str
    value: float
    harness: str
    protocol: str
    checkpoint: str = ""
    stderr: float | None = None
    num_samples: int | None = None
    shots: int | None = None
    template: str | None = None
    stop_set: tuple[str, ...] | None = None
    extractor: str | None = None
    harness_version: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    raw: str = ""
    at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What could not be imported, and where. `position` in words: line 12, byte 4096, record 7."""

    file: str
    position: str
    what: str


Item = FoundRun | FoundSegment | Columns | Fact | Ended | FoundNegative | FoundScore | Problem
Items = Iterator[Item]
