"""Where training data came from and what was done to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How much a stage adds (R801-8.2). L6 to L9 are not named by the source and stay open."""

    L0 = "L0"  # acquisition
    L1 = "L1"  # format normalisation
    L2 = "L2"  # rules
    L3 = "L3"  # light models
    L4 = "L4"  # generative refinement
    L5 = "L5"  # cognitive completion
    L6 = "L6"
    L7 = "L7"
    L8 = "L8"
    L9 = "L9"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of a pipeline. `key` is unique in its pipeline."""

    key: str
    level: Level
    title: str


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Stages in the order in which they run."""

    id: str
    title: str
    stages: tuple[Stage, ...]
    owner: str


@dataclass(frozen=True, kw_only=True)
class StageVersion:
    """`code_version`: commit or content hash of the stage's code."""

    pipeline_id: str
    stage: str
    code_version: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StageTrace:
    """A stage that a subset went through: documents in and out, and where the intermediate result lies."""

    stage: str
    code_version: str
    num_in: int | None = None
    num_out: int | None = None
    output: str = ""
    output_sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class Subset:
    """`parents`: subsets it was derived from. `trace` in the order in which the stages ran; the first acquires."""

    id: str
    pipeline_id: str
    source: str
    owner: str
    trace: tuple[StageTrace, ...]
    parents: tuple[str, ...] = ()
    num_documents: int | None = None
    num_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class NewDocument:
    """`texts[i]` is the text after stage i of its subset's trace; None: dropped there, for `reasons[i]`."""

    id: str
    subset_id: str
    source: str
    texts: tuple[str | None, ...]
    reasons: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DocumentStep:
    """One stage of a document's way. `before` None: it was acquired here; `after` None: it was dropped here."""

    stage: str
    level: Level
    code_version: str
    before: str | None
    after: str | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """`source`: where the document itself came from; `steps` from acquisition on."""

    id: str
    subset_id: str
    pipeline_id: str
    source: str
    steps: tuple[DocumentStep, ...]


@dataclass(frozen=True, kw_only=True)
class MixtureEvent:
    """A source's weight from `step` on. `before` None: it had none. `subset_id` None: no subset has this name."""

    run_id: str
    segment: int
    step: int
    source: str
    before: float | None
    after: float | None
    declared: bool
    subset_id: str | None
