"""Evaluation results of foreign harnesses, with their identity.

A training step is taken only from the path of the evaluated checkpoint; without one a score is a fact and no point of a
series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from context_store.evals import IDENTITY, identity_key
from context_store.importers.items import Columns, Fact, FoundRun, FoundScore, FoundSegment, Items
from context_store.score_lineage import step_of
from contracts.enums import TimelineKind
from contracts.events import Scalar


@dataclass(frozen=True, kw_only=True)
class EvalFile:
    """The scores of one file. `model`: what was evaluated, as the file says it."""

    path: Path
    model: str
    scores: Sequence[FoundScore]
    config: Mapping[str, Scalar] = field(default_factory=dict)
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    at: float = 0.0


def items_of(found: EvalFile) -> Items:
    step = step_of(found.model)
    if step is None:
        step = step_of(str(found.path))
    yield FoundRun(
        key=f"eval:{found.path.resolve()}",
        name=found.path.stem,
        project=found.path.resolve().parent.name,
        origin=str(found.path),
    )
    yield FoundSegment(
        number=0,
        start_step=step or 0,
        config=found.config,
        environment=found.environment,
        started_at=found.at,
    )
    if step is not None and found.scores:
        yield Columns(columns=_columns(found.scores, step))
    yield from _facts(found, step)
    yield from found.scores


def _columns(scores: Sequence[FoundScore], step: int) -> dict[str, Any]:
    found = {}
    for score in scores:
        for name, value in ((score.metric, score.value), (f"{score.metric}_stderr", score.stderr)):
            if value is not None:
                found[f"{name}/{score.benchmark}"] = (np.array([step], np.int64), np.array([value], np.float64))
    return found


def _facts(found: EvalFile, step: int | None) -> Iterator[Fact]:
    for score in found.scores:
        error = f" +- {score.stderr:.4g}" if score.stderr is not None else ""
        identity = {name: getattr(score, name) for name in IDENTITY}
        detail = {
            "benchmark": score.benchmark,
            "metric": score.metric,
            "value": score.value,
            "stderr": score.stderr,
            "n": score.num_samples,
            "model": found.model,
            "step": step,
            "identity": identity,
            "identity_key": identity_key(identity),
        }
        title = f"{score.benchmark} {score.metric} {score.value:.6g}{error}"
        yield Fact(step=step or 0, kind=TimelineKind.EVAL, title=title, detail=detail, at=found.at)
