"""Runs of trackers that keep, for each metric, points with a time: starts are found by a clock that goes back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from context_store.importers.items import Column, Columns, Ended, Fact, FoundRun, FoundSegment, Items, Problem
from contracts.events import Scalar

_OUR_TAG = "tag.lathe.run_id"  # control_plane.mlflow_sink
_EVAL = re.compile(r"(?:^|[/_])(?:eval|val|valid|validation|test)(?:[/_]|$)")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Points of one metric in the order in which they were logged. `times` in milliseconds since 1970."""

    times: NDArray[np.int64]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """One run, whole. `ended` None: the tracker does not say."""

    key: str
    name: str
    project: str
    origin: str
    metrics: Mapping[str, Metric]
    config: Mapping[str, Scalar] = field(default_factory=dict)
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    started_at: float = 0.0
    ended: Ended | None = None
    facts: Sequence[Fact] = ()


def items_of(run: TrackedRun) -> Items:
    if _OUR_TAG in run.environment:
        yield Problem(file=run.origin, position=run.name, what="a copy that Lathe itself made of one of its runs")
        return
    yield FoundRun(key=run.key, name=run.name, project=run.project, origin=run.origin)
    starts = _starts(run.metrics)
    for number in range(len(starts) + 1):
        columns = _columns(run.metrics, starts, number)
        yield _segment(run, number, columns, starts)
        if columns:
            yield Columns(columns=columns)
        if number == 0:
            yield from run.facts
    if run.ended is not None:
        yield run.ended


def _starts(metrics: Mapping[str, Metric]) -> list[float]:
    """Times between two starts: halfway between the rows of the training's clock where its step goes back."""
    training = {name: metric for name, metric in metrics.items() if not _EVAL.search(name)} or metrics
    if not training:
        return []
    clock = training[max(training, key=lambda name: (len(training[name].steps), name))]
    back = np.flatnonzero(np.diff(clock.steps) < 0)
    return [float(each) for each in (clock.times[back] + clock.times[back + 1]) / 2]


def _columns(metrics: Mapping[str, Metric], starts: Sequence[float], number: int) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for name, metric in metrics.items():
        mine = np.searchsorted(starts, metric.times, side="left") == number
        if mine.any():
            found[name] = (metric.steps[mine], metric.values[mine])
    return found


def _segment(run: TrackedRun, number: int, columns: Mapping[str, Column], starts: Sequence[float]) -> FoundSegment:
    first = min((int(steps.min()) for steps, _ in columns.values()), default=0)
    gaps = np.concatenate([np.diff(np.unique(steps)) for steps, _ in columns.values()] or [np.ones(1, np.int64)])
    interval = int(np.median(gaps)) if len(gaps) else 1
    seed = run.config.get("seed")
    return FoundSegment(
        number=number,
        start_step=first - 1 if number or first > 2 * max(1, interval) else 0,
        config=run.config,
        environment=run.environment,
        code_version=str(run.environment.get("git.commit", "")),
        seed=seed if isinstance(seed, int) and not isinstance(seed, bool) else 0,
        started_at=_first_time(run.metrics, starts, number) if number else run.started_at,
        config_came_later=number < len(starts),
    )


def _first_time(metrics: Mapping[str, Metric], starts: Sequence[float], number: int) -> float:
    """When the first point of a start was logged."""
    times = [metric.times[np.searchsorted(starts, metric.times, side="left") == number] for metric in metrics.values()]
    return min(int(each.min()) for each in times if len(each)) / 1000
