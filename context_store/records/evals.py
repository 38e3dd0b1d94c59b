"""Scores with everything that decides whether two of them may be compared; benchmarks; what a corpus leaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from context_store.records.types import Json


@dataclass(frozen=True, kw_only=True)
class NewScore:
    """One number of one evaluation.

    Lineage: `checkpoint` (content hash, or path or name with revision), `recipe` (code version, or the published
    recipe that made the checkpoint), `protocol`; `run_id`, `segment` and `step` where the training is in the store.
    Identity: benchmark, metric, protocol, shots, template, stop set, extractor, harness and its version, settings.
    None: not recorded, so as this version of the harness defines it. `template`: name or hash of the prompt template.
    `raw`: where the single outputs lie.
    """

    project_id: str
    checkpoint: str
    recipe: str
    benchmark: str
    metric: str
    protocol: str
    harness: str
    value: float
    owner: str
    shots: int | None = None
    template: str | None = None
    stop_set: tuple[str, ...] | None = None
    extractor: str | None = None
    harness_version: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    segment: int | None = None
    step: int | None = None
    stderr: float | None = None
    num_samples: int | None = None
    raw: str = ""
    raw_sha256: str = ""
    at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Score(NewScore):
    """`identity_key` is equal exactly for scores that may be compared: without a harness version it is one's own."""

    id: int
    settings_hash: str
    identity_key: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`difference` is b - a and `stderr` its standard error, None where they are not comparable or not known.

    `differs`: identity fields that keep the two apart; `unknown`: fields that neither of them recorded.
    """

    comparable: bool
    reason: str
    differs: tuple[str, ...]
    unknown: tuple[str, ...]
    difference: float | None
    stderr: float | None


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Scores of one identity, best first. `apart`: why it is not ranked with the largest group, "" for that one."""

    identity: Json
    scores: tuple[Score, ...]
    apart: str


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """`count` scores of a run's imported log that are not stored, so that they cannot be ranked, and why."""

    run_id: str
    count: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A registered benchmark; `sha256` is over its items. `origin`: the file they came from."""

    id: str
    title: str
    sha256: str
    num_items: int
    origin: str
    owner: str
    at: float


@dataclass(frozen=True, kw_only=True)
class Leak:
    """A document that shares n-grams with an item. `share`: of the item's n-grams; `example`: one of them."""

    document: str
    item: str
    num_ngrams: int
    share: float
    example: str


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A file of a corpus of which nothing was read, or that was not read to its end."""

    file: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Decontamination:
    """What one corpus shares with one benchmark. `leaks` names at most MAX_LEAKS, the largest shares first.

    `num_short_items` have fewer than n words: they count as leaked when a document has all their words in a row.
    What was not searched: `num_unread` files, of which `unread` names the first MAX_UNREAD, and `num_bad` lines or rows
    without a document, of which `bad` names the first.
    """

    corpus: str
    corpus_sha256: str
    benchmark_id: str
    n: int
    num_documents: int
    num_leaking_documents: int
    num_items: int
    num_leaked_items: int
    num_short_items: int
    leaks: tuple[Leak, ...]
    num_unread: int
    unread: tuple[Unread, ...]
    num_bad: int
    bad: tuple[str, ...]
    owner: str
    at: float
    id: int = 0
