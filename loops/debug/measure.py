"""Probe: how much of an anomaly a run shows. 0 is like the control, 1 is like the anomalous run.

Two runs from one checkpoint read the same data at the same steps, so they are compared step by step. The measure is
the projection of (run - control) on (anomalous - control) over the probe's series, each divided by its own noise:

    m = sum_i (r_i - c_i)(a_i - c_i) / s_i^2  /  sum_i (a_i - c_i)^2 / s_i^2

with r, c, a the readings of run, control and anomalous run (means over the window, or slopes) and s the step noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loops.debug.view import RunView
from loops.statistics.location import theil_sen

Floats = NDArray[np.float64]


class Reading(StrEnum):
    """What is read of a series in a window."""

    LEVEL = "level"  # the value
    LOG_LEVEL = "log_level"  # its logarithm, for positive statistics
    LOG_EXCESS = "log_excess"  # logarithm of what exceeds 1, for statistics whose best value is 1
    LOG_OVER_PEERS = "log_over_peers"  # logarithm over the median of the same statistic of the other ranks
    SLOPE = "slope"  # change of the logarithm per step
    NONFINITE = "nonfinite"  # 1 where the value is NaN or infinite


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What to read, and what it read on the anomalous run before (`normal`) and after onset (`anomalous`).

    The four tuples run parallel to `series`. `noise` is the step noise of the reading, never 0. `since` is the first
    step at which the anomaly counts as developed, `until` the last step that was known when it was found. `peers` are
    the other ranks' series, where the reading compares with them.
    """

    series: tuple[str, ...]
    reading: Reading
    normal: tuple[float, ...]
    anomalous: tuple[float, ...]
    noise: tuple[float, ...]
    since: int
    until: int
    peers: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All series that a reading takes."""
        return (*self.series, *self.peers)

    def to_json(self) -> dict[str, Any]:
        """JSON values only; the inverse of `from_json`."""
        return {
            "series": list(self.series),
            "reading": str(self.reading),
            "normal": list(self.normal),
            "anomalous": list(self.anomalous),
            "noise": list(self.noise),
            "since": self.since,
            "until": self.until,
            **({"peers": list(self.peers)} if self.peers else {}),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Probe:
        return cls(
            series=tuple(fields["series"]),
            reading=Reading(fields["reading"]),
            normal=tuple(fields["normal"]),
            anomalous=tuple(fields["anomalous"]),
            noise=tuple(fields["noise"]),
            since=fields["since"],
            until=fields["until"],
            peers=tuple(fields.get("peers", ())),
        )


@dataclass(frozen=True, kw_only=True)
class Window:
    """Inclusive steps over which runs are compared."""

    lo: int
    hi: int


def transform(values: Floats, reading: Reading) -> Floats:
    """Values on the scale of a reading (slopes are of logarithms). Zeros and negatives are held at a tiny floor."""
    if reading is Reading.NONFINITE:
        return (~np.isfinite(values)).astype(np.float64)
    if reading is Reading.LEVEL:
        return values
    floor, offset = (1e-3, 1.0) if reading is Reading.LOG_EXCESS else (1e-12, 0.0)
    return np.asarray(np.log(np.maximum(values - offset, floor)), dtype=np.float64)


def readings(view: RunView, probe: Probe, window: Window) -> Floats | None:
    """Readings [N, T] over the window's steps (T = 1 for slopes); None when the run lacks a series or the steps."""
    if probe.reading is Reading.LOG_OVER_PEERS:
        return _over_peers(view, probe, window)
    rows = [_reading(view, name, probe.reading, window) for name in probe.series]
    kept = [row for row in rows if row is not None]
    if len(kept) < len(rows) or not kept:
        return None
    length = min(row.size for row in kept)
    return np.stack([row[:length] for row in kept]) if length else None


def magnitude(run: Floats, anomalous: Floats, control: Floats, noise: Floats) -> Floats:
    """The measure per step [T], weighted so that its mean is the measure of the window. NaN where nothing differs.

    `run`, `anomalous` and `control` are readings [N, T]; `control` and `anomalous` may be [N, 1].
    """
    length = min(a.shape[1] for a in (run, anomalous, control) if a.shape[1] > 1) if run.shape[1] > 1 else 1
    run, anomalous, control = (a[:, :length] if a.shape[1] > 1 else a for a in (run, anomalous, control))
    mean_control = control.mean(axis=1, keepdims=True)
    direction = (anomalous.mean(axis=1, keepdims=True) - mean_control) / noise[:, None] ** 2
    size = float(np.sum(direction * (anomalous.mean(axis=1, keepdims=True) - mean_control)))
    if not size > 0.0:
        return np.full(length, np.nan)
    return np.asarray(np.sum(direction * (run - control), axis=0) / size, dtype=np.float64)


def _over_peers(view: RunView, probe: Probe, window: Window) -> Floats | None:
    """[1, T] at the steps that all ranks logged."""
    if not all(name in view.values for name in probe.names):
        return None
    rows = np.stack([view.values[name] for name in probe.names])
    inside = (view.steps >= window.lo) & (view.steps <= window.hi) & np.all(np.isfinite(rows), axis=0)
    logs = transform(rows[:, inside], probe.reading)
    return logs[:1] - np.median(logs[1:], axis=0) if logs.shape[1] else None


def _reading(view: RunView, name: str, reading: Reading, window: Window) -> Floats | None:
    if name not in view.values:
        return None
    inside = (view.steps >= window.lo) & (view.steps <= window.hi) & view.present[name]
    values = view.values[name][inside]
    if not values.size or (reading is not Reading.NONFINITE and not np.all(np.isfinite(values))):
        return None
    scaled = transform(values, reading)
    if reading is not Reading.SLOPE:
        return scaled
    return np.array([theil_sen(view.steps[inside].astype(np.float64), scaled)[0]]) if values.size >= 3 else None
