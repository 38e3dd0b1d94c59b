"""Tables of experiments that somebody kept: one row an experiment, with a score, a status and a description.

One table is one run whose steps are the numbers of the experiments, in order. A score of exactly 0 of a crash is no
score. What was discarded or crashed becomes a negative result that holds in the context of its base.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from context_store.importers.formats import Format, Source, Tree, head
from context_store.importers.items import Column, Columns, Fact, FoundNegative, FoundRun, FoundSegment, Items, Problem
from context_store.importers.lines import Line, read_lines
from context_store.importers.tables import is_nothing, number_of
from contracts.enums import TimelineKind

_NEEDED = {"status", "description"}
_SCORES = ("val_bpb", "val_loss", "eval_loss", "loss", "bpb", "score", "metric")
_HIGHER_IS_BETTER = {"score", "metric"}
_KEPT, _CRASHED = {"keep", "kept", "accept", "accepted"}, {"crash", "crashed", "error", "failed"}
_SEED = re.compile(r"\bseed\b", re.I)
_BROKEN = 2.0  # a score this many times worse than the baseline is a broken run, not a weak idea


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """`number` counts from 1. `score` None: it has none. `before`: the best that was kept before it."""

    number: int
    commit: str
    status: str
    description: str
    score: float | None
    before: float | None
    others: dict[str, float]

    @property
    def crashed(self) -> bool:
        return self.status.lower() in _CRASHED

    @property
    def kept(self) -> bool:
        return self.status.lower() in _KEPT


def find(tree: Tree) -> list[Source]:
    return [Source(files=(path,)) for path in tree.files if path.suffix in (".tsv", ".csv") and _score_of(path)]


def read(source: Source) -> Items:
    path = source.files[0]
    score = _score_of(path)
    experiments: list[Experiment] = []
    for found in _experiments(path, score):
        if isinstance(found, Problem):
            yield found
        else:
            experiments.append(found)
    if not experiments:
        return
    yield FoundRun(
        key=str(path.resolve()),
        name=path.stem,
        project=path.resolve().parent.name,
        origin=str(path),
        names={score: score},
    )
    yield FoundSegment(number=0, start_step=0, config={"x_axis": "number of the experiment", "score": score})
    yield Columns(columns=dict(_columns(experiments, score)))
    noise = _seed_noise(experiments)
    seen: dict[str, int] = {}
    for experiment in experiments:
        yield from _facts(experiment, score, noise, seen)


def _score_of(path: Path) -> str:
    """The column of the score; "" when the table is no table of experiments."""
    first = head(path).decode("utf-8-sig", errors="replace").partition("\n")[0].strip()
    columns = first.split("\t" if "\t" in first else ",")
    if not set(columns) >= _NEEDED:
        return ""
    return next((name for name in _SCORES if name in columns), "")


def _experiments(path: Path, score: str) -> Iterator[Experiment | Problem]:
    lines = (line.text for line in read_lines(path) if isinstance(line, Line))
    first = head(path).partition(b"\n")[0]
    best: float | None = None
    rows = csv.DictReader(lines, delimiter="\t" if b"\t" in first else ",", quoting=csv.QUOTE_MINIMAL)
    for number, row in enumerate(rows, 1):
        if not row.get("status") or row.get("description") is None:
            yield Problem(file=str(path), position=f"line {number + 1}", what="no status or description")
            continue
        value = number_of(row.get(score))
        if value is None and not is_nothing(row.get(score)):
            what = f"field {score}: {row[score]!r:.80} is no number"
            yield Problem(file=str(path), position=f"line {number + 1}", what=what)
        crashed = row["status"].lower() in _CRASHED
        others = {
            key: found
            for key, cell in row.items()
            if key not in (score, "commit", *_NEEDED, None) and (found := number_of(cell)) is not None
        }
        experiment = Experiment(
            number=number,
            commit=row.get("commit") or "",
            status=row["status"],
            description=row["description"],
            score=None if crashed and value == 0.0 else value,
            before=best,
            others={} if crashed and value == 0.0 else others,
        )
        yield experiment
        if experiment.kept and experiment.score is not None:
            best = experiment.score


def _columns(experiments: Sequence[Experiment], score: str) -> Iterator[tuple[str, Column]]:
    rows: dict[str, list[tuple[int, float]]] = {}
    for experiment in experiments:
        scored = {} if experiment.score is None else {score: experiment.score}
        for name, value in {**scored, **experiment.others}.items():
            rows.setdefault(name, []).append((experiment.number, value))
    for name, points in rows.items():
        steps, values = zip(*points, strict=True)
        yield name, (np.array(steps, np.int64), np.array(values, np.float64))


def _seed_noise(experiments: Sequence[Experiment]) -> float | None:
    """By how much a change of nothing but the seed moved the score."""
    moved = [
        abs(each.score - each.before)
        for each in experiments
        if _SEED.search(each.description) and each.score is not None and each.before is not None
    ]
    return max(moved, default=None)


def _facts(each: Experiment, score: str, noise: float | None, seen: dict[str, int]) -> Iterator[Fact | FoundNegative]:
    gain = None if each.score is None or each.before is None else each.before - each.score
    if gain is not None and score in _HIGHER_IS_BETTER:
        gain = -gain
    unproven = each.kept and gain is not None and noise is not None and gain < noise
    detail = {"commit": each.commit, "status": each.status, "score": each.score, "before": each.before, "gain": gain}
    if unproven:
        detail["unproven"] = f"gained {gain:.6f}, less than the {noise:.6f} by which a change of the seed moved it"
    title = f"experiment {each.number}, {each.status}: {each.description}"
    fact = Fact(step=each.number, kind=TimelineKind.EVAL, title=title, detail=detail)
    if each.description in seen:
        again = f"experiment {each.number} was tried before as experiment {seen[each.description]}"
        yield Fact(step=each.number, kind=TimelineKind.NOTE, title=again, detail={"description": each.description})
    seen.setdefault(each.description, each.number)
    yield fact if each.kept else _negative(each, score, fact)


def _negative(each: Experiment, score: str, fact: Fact) -> FoundNegative:
    context = {"base": "the best that was kept before", "best_before": each.before, "experiment": each.number}
    if each.crashed or each.score is None:
        kind, observed, reason = "crash", "the run crashed", "it never gave a score"
    elif each.before is not None and score not in _HIGHER_IS_BETTER and each.score > _BROKEN * each.before:
        kind, observed = "broken_run", f"{score} {each.score} against {each.before}"
        reason = "far worse than the baseline: the run is broken, which says little about the idea"
    else:
        kind, observed = "no_gain", f"{score} {each.score} against {each.before}, the best before it"
        reason = "one run did not beat the best before it"
    return FoundNegative(
        fact=fact,
        claim=f"{each.description} improves {score}",
        intervention=each.description,
        expected=f"{score} better than {each.before}",
        observed=observed,
        reason_class=kind,
        reason=reason,
        reopen_if="the base has changed: a negative result holds for its context",
        context=context,
    )


FORMAT = Format(name="experiment table", find=find, read=read)
