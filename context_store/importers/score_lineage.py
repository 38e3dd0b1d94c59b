"""Scores of foreign evaluations become scores of the store only with lineage: which checkpoint, made by which recipe.

Either the evaluated path is that of a stored checkpoint, or it names a published model. Anything else stays a fact on
the timeline, with the reason; `lathe evals import --run RUN` says what the log does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from context_store.database import Database
from context_store.evals import UNRANKED, Evals
from context_store.file_hash import sha256_of
from context_store.importers.items import Fact, FoundScore
from context_store.importers.report import RunReport
from context_store.records import NewScore
from context_store.score_lineage import ScoreLineage
from contracts.enums import TimelineKind


def add_scores(database: Database, found: Sequence[FoundScore], report: RunReport, owner: str) -> Iterator[Fact]:
    """Store what has lineage; yields one fact for each checkpoint whose scores were refused."""
    evals = Evals(database)
    refused: dict[str, Counter[str]] = {}
    for score in found:
        lineage = evals.lineage_of(score.checkpoint)
        if lineage is None:
            refused.setdefault(score.checkpoint, Counter())[score.benchmark] += 1
        else:
            evals.add(new_score(score, lineage, report.project_id, owner), log=score.raw)
    for checkpoint, counts in refused.items():
        named = f"checkpoint '{checkpoint}' is not in the store" if checkpoint else "the log names no checkpoint"
        detail = {"checkpoint": checkpoint, "benchmarks": dict(counts)}
        yield Fact(step=0, kind=TimelineKind.NOTE, title=f"{counts.total()} scores {UNRANKED}: {named}", detail=detail)


def new_score(found: FoundScore, lineage: ScoreLineage, project_id: str, owner: str) -> NewScore:
    """The score of a log, as one of this checkpoint."""
    values: dict[str, Any] = {**asdict(found), **asdict(lineage)}
    hashed = sha256_of(Path(found.raw)) if found.raw else ""
    return NewScore(project_id=project_id, owner=owner, raw_sha256=hashed, **values)
