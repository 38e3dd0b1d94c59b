"""What search takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from contracts.evidence import EvidenceRef


class TextKind(StrEnum):
    """What a text that is searched belongs to."""

    HUNK = "hunk"
    CHANGE = "change"  # a timeline event: config, code, data, environment, resume, fork, evaluation, approval
    NOTE = "note"  # also an imported lesson or incident
    ANOMALY = "anomaly"
    INVESTIGATION = "investigation"
    NEGATIVE = "negative"


@dataclass(frozen=True, kw_only=True)
class SearchFilter:
    """What a hit has to be; None or empty leaves it open.

    `run_id`: a change of code belongs to the runs that it came into force in, at the first step of the segment; a
    negative result to the run of its context, case or evidence.
    `field`: a configuration key, series or symbol, whole or its first parts (`optim.router` takes `optim.router.lr`);
    a change of code has those it reads, a negative result those of its context and case, a case those of its findings
    and of its suspects that were not excluded, a note those it names.
    `lo`, `hi`: steps, inclusive; what has no step is left out by them, so are changes of code unless a run is named.
    `since`, `until`: unix seconds; when a change was committed or came into force, a finding was made, a case opened.
    `outcome`: a verdict (of the case, or on the change as its suspect), a reason class, a kind of anomaly, or what an
    imported lesson says.
    """

    kinds: tuple[TextKind, ...] = ()
    project_id: str | None = None
    run_id: str | None = None
    layer: int | None = None
    field: str | None = None
    lo: int | None = None
    hi: int | None = None
    since: float | None = None
    until: float | None = None
    outcome: str | None = None


@dataclass(frozen=True, kw_only=True)
class Hit:
    """`score` by reciprocal rank; `by_words` and `by_meaning`: its rank in each list, 1 is best, None is not in it.

    `similarity`: cosine to the question, None unless found by meaning. `by_meaning` also says how many are like it: one
    of many alike stands behind what is about as near and alone.
    """

    kind: TextKind
    reference: EvidenceRef
    title: str
    body: str
    score: float
    by_words: int | None
    by_meaning: int | None
    similarity: float | None
    project_id: str | None
    run_id: str | None
    steps: tuple[int, int] | None
    at: float | None
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How many texts there are and how many have a vector of the embedder in use."""

    embedder: str
    num_texts: int
    num_embedded: int
