"""Logs that arrive over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contracts.events import Scalar


@dataclass(frozen=True, kw_only=True)
class NewStream:
    """One process of a training elsewhere, and what it knows before its first step.

    `id` is unique to the process, `start` is what all processes of one launch share; `config` is flat with dotted
    keys; `origin` says where the process runs; `owner` answers for the run (and for its project when that is new).
    """

    id: str
    run_id: str
    project_id: str
    name: str
    start: str
    rank: int = 0
    world_size: int = 1
    origin: str = ""
    start_step: int = 0
    code_version: str = ""
    seed: int = 0
    start_checkpoint: str = ""
    config: Mapping[str, Scalar] = field(default_factory=dict)
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    wall_time: float = 0.0
    parent_run_id: str | None = None
    parent_step: int | None = None
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """`offset_bytes`: everything before it is loaded and kept."""

    id: str
    run_id: str
    start: str
    rank: int
    segment: int
    offset_bytes: int
