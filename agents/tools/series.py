"""What was measured: names, windows of one series, and one statistic across the layers."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from agents import evidence
from agents.tools.protocol import MAX_ROWS, Arguments, ToolResult, result, row
from context_store import Store
from context_store.records import SeriesMatrix

_POINTS_A_ROW = 8


class ListSeries(Arguments):
    run_id: str
    contains: str = Field(default="", description="part of the name, for instance 'layers.5' or 'loss'")


class SeriesWindow(Arguments):
    run_id: str
    name: str
    lo: int | None = Field(default=None, description="first step")
    hi: int | None = Field(default=None, description="last step")
    max_points: int = Field(default=40, ge=4, le=200)


class StatisticAcross(Arguments):
    """`since`: values from this step on are compared with those before it."""

    run_id: str
    statistic: str = Field(description="for instance max_vio")
    since: int = Field(description="step at which something may have changed")
    window: int = Field(default=50, ge=2, le=10_000, description="steps on each side")

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if self.since < 1:
            raise ValueError("since must be at least 1")
        return self


def list_series(store: Store, arguments: ListSeries) -> ToolResult:
    store.runs.get(arguments.run_id)
    names = [name for name in store.series.names(arguments.run_id) if arguments.contains in name]
    last = store.runs.get(arguments.run_id).last_step
    rows = [row(name, evidence.series(arguments.run_id, name, 0, last)) for name in names]
    return result(rows, f"run {arguments.run_id} has no series whose name contains '{arguments.contains}'")


def series_window(store: Store, arguments: SeriesWindow) -> ToolResult:
    """Downsampled without hiding an extreme or a non-finite point; several points a row."""
    run_id, name = arguments.run_id, arguments.name
    store.runs.get(run_id)
    data = store.series.downsample(run_id, name, max(1, arguments.max_points // 4), arguments.lo, arguments.hi)
    rows = []
    for start in range(0, len(data.steps), _POINTS_A_ROW):
        steps = data.steps[start : start + _POINTS_A_ROW].tolist()
        values = data.values[start : start + _POINTS_A_ROW].tolist()
        points = ", ".join(f"{step}: {number(value)}" for step, value in zip(steps, values, strict=True))
        rows.append(row(f"{name} at steps {points}", evidence.series(run_id, name, steps[0], steps[-1])))
    return result(rows, f"run {run_id} has no points of '{name}' there; list_series shows the names")


def statistic_across(store: Store, arguments: StatisticAcross) -> ToolResult:
    """Each place by how far it moved, in units of its own spread before; the largest first."""
    run_id, since, window = arguments.run_id, arguments.since, arguments.window
    store.runs.get(run_id)
    matrix = store.series.across(run_id, arguments.statistic, since - window, since + window - 1)
    nothing = f"run {run_id} has no '{arguments.statistic}' around step {since}; list_series shows the names"
    if not len(matrix.steps):
        return result([], nothing)
    shift, score = departures(matrix, since)
    rows = []
    for i in np.argsort(-np.nan_to_num(score, nan=-1.0), kind="stable")[:MAX_ROWS]:
        if np.isnan(score[i]):
            continue
        direction = "rises" if shift[i] > 0 else "falls"
        size = f"{number(abs(shift[i]))} ({score[i]:.1f} times its spread)"
        text = f"{matrix.names[i]} {direction} by {size} from step {since} on"
        rows.append(row(text, evidence.series(run_id, matrix.names[i], max(0, since - window), since + window - 1)))
    return result(rows, nothing)


def departures(matrix: SeriesMatrix, since: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(shift, score) [N]: the later median minus the earlier one, and its size in spreads of the earlier values.

    The spread is 1.4826 MAD, at least 1 % of the earlier level. NaN where one side has no finite point.
    """
    values = np.where(np.isfinite(matrix.values), matrix.values, np.nan)
    before, after = values[:, matrix.steps < since], values[:, matrix.steps >= since]
    shift, score = np.full(len(values), np.nan), np.full(len(values), np.nan)
    for i in range(len(values)):
        early, late = before[i][~np.isnan(before[i])], after[i][~np.isnan(after[i])]
        if len(early) and len(late):
            level = np.median(early)
            spread = max(1.4826 * np.median(np.abs(early - level)), 0.01 * abs(level), 1e-12)
            shift[i] = np.median(late) - level
            score[i] = abs(shift[i]) / spread
    return shift, score


def number(value: float) -> str:
    return f"{value:.4g}"
