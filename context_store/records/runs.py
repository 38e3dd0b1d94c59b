"""What is known about runs, their segments, and what a segment reports once or now and then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.enums import RunRole, RunState
from contracts.events import Scalar

UNKNOWN_OWNER = "unknown"  # stored before owners were kept, or by who did not say who they are


@dataclass(frozen=True, kw_only=True)
class Project:
    """A source tree with a recipe. `path` is its git repository. `owner` "": whoever opened the store."""

    id: str
    path: str
    entry: str = "recipe:recipe"
    backend: str = "embedded"
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """What is known before a run starts. `parent_*` for forks and diagnostics.

    `owner` "": its parent's, else whoever opened the store, else its project's.
    """

    id: str
    project_id: str
    name: str
    role: RunRole
    folder: str
    parent_run_id: str | None = None
    parent_step: int | None = None
    investigation_id: str | None = None
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Run(NewRun):
    """A run with what ingest learned. `last_step` is that of the newest segment that made a step."""

    state: RunState
    message: str
    last_step: int
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One start or resume. `end_reason` is "" until it says that it ended: completed, stopped or failed."""

    run_id: str
    number: int
    start_step: int
    last_step: int
    code_version: str
    seed: int
    dp_size: int
    start_checkpoint: str
    environment: Mapping[str, Scalar]
    started_at: float
    ended_at: float | None = None
    end_reason: str = ""
    message: str = ""
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    run_id: str
    segment: int
    step: int
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class DataReads:
    """Canonical order of what was read: parallel arrays, ascending steps. `positions`: samples consumed so far."""

    steps: NDArray[np.int64]
    segments: NDArray[np.int32]
    hashes: tuple[str, ...]
    positions: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Executed:
    """Project files a segment imported (relative path -> sha256) and the lines of them it ran."""

    modules: Mapping[str, str]
    lines: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class ConfigChange:
    """One field that differs. `status`: added, removed or changed."""

    key: str
    before: Scalar
    after: Scalar
    status: str


@dataclass(frozen=True, kw_only=True)
class RunTableRow:
    """A run, the last value of its series by name, and what its newest segment's configuration declared."""

    run: Run
    latest: Mapping[str, float]
    config: Mapping[str, Scalar]
