"""Slow drift within a stretch of a run, without any jump: a loss that creeps up again, gradients that keep growing,
router logits that grow ever faster. The onset is an interval: where a straight ramp may have begun.

A change at a resume is for other detectors; here the points between two resumes are judged by the medians of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loops.debug.finding import Finding, series_ref
from loops.debug.measure import Probe, Reading, transform
from loops.debug.view import RunView
from loops.statistics.change_point import least_squares_split
from loops.statistics.location import difference_sigma, median

_MIN_POINTS, _BLOCKS = 120, 16
_SETTLED = 0.25  # share of a stretch in which everything moves
_MONOTONE, _MIN_BLOCKS = 0.85, 4  # share of the pairs of blocks that go up, and blocks over which they do
_SIGMAS = 6.0  # rise in sd of a block median around its neighbours

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`min_rise` in logarithms. `accelerates`: also grows in health, so the last half must outgrow the one before."""

    template: str
    min_rise: float
    accelerates: bool
    specificity: int
    words: str


RULES = (
    Rule(
        template="router_logit_std/layers.*",
        min_rise=float(np.log(2.0)),
        accelerates=True,
        specificity=61,
        words="the router logits grow",
    ),
    Rule(
        template="attn_logit_max/layers.*",
        min_rise=float(np.log(2.0)),
        accelerates=True,
        specificity=61,
        words="the attention logits grow",
    ),
    Rule(
        template="z_loss/layers.*",
        min_rise=float(np.log(2.5)),
        accelerates=True,
        specificity=56,
        words="the router z-loss grows",
    ),
    Rule(
        template="max_vio/layers.*",
        min_rise=float(np.log(1.8)),
        accelerates=False,
        specificity=53,
        words="the experts are used ever less evenly",
    ),
    Rule(
        template="grad_norm",
        min_rise=float(np.log(3.0)),
        accelerates=False,
        specificity=29,
        words="the gradient norm grows",
    ),
    Rule(
        template="lm_loss",
        min_rise=0.03,
        accelerates=False,
        specificity=27,
        words="the loss creeps up again",
    ),
    Rule(template="loss", min_rise=0.03, accelerates=False, specificity=19, words="the loss creeps up again"),
)


@dataclass(frozen=True, kw_only=True)
class _Ramp:
    steps: NDArray[np.int64]
    values: Floats  # in logarithms
    onset: tuple[int, int]
    rise: float
    level: float


def detect(view: RunView) -> list[Finding]:
    """At most one finding per rule, in the first stretch that shows it."""
    return [found for rule in RULES if (found := _judge(view, rule)) is not None]


def _judge(view: RunView, rule: Rule) -> Finding | None:
    if rule.template == "loss" and "lm_loss" in view.values:
        return None
    family = view.family(rule.template) if "*" in rule.template else None
    names = family.names if family else (rule.template,) if rule.template in view.values else ()
    for steps, row in _stretches(view, rule, names):
        if (ramp := _ramp(steps, row, rule)) is not None:
            return _finding(view, rule, names, family.layers if family else (), ramp)
    return None


def _stretches(view: RunView, rule: Rule, names: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Steps and the median over the layers, in logarithms, between two resumes, without the settling part."""
    if not names:
        return
    rows = transform(np.stack([view.values[name] for name in names]), Reading.LOG_LEVEL)
    complete = np.all(np.isfinite(np.stack([view.values[name] for name in names])), axis=0)
    steps, row = view.steps[complete], np.median(rows[:, complete], axis=0)
    for first, last in view.stretches:
        inside = np.flatnonzero((steps >= first) & (steps <= last))
        inside = inside[int(_SETTLED * inside.size) :]
        if inside.size >= _MIN_POINTS:
            yield steps[inside], row[inside]


def _ramp(steps: NDArray[np.int64], row: Floats, rule: Rule) -> _Ramp | None:
    """The rise from the lowest block to the end, when it is large, steady, lasting, and outside the noise."""
    parts = np.array_split(np.arange(row.size), _BLOCKS)
    blocks = np.array([median(row[part]) for part in parts])
    lowest = int(np.argmin(blocks))
    tail = blocks[lowest:]
    if tail.size < _MIN_BLOCKS + 1 or _share_rising(tail) < _MONOTONE:
        return None
    rise = float(tail[-1] - tail[0])
    if rise < max(rule.min_rise, _SIGMAS * difference_sigma(blocks - _straight(blocks))):
        return None
    if rule.accelerates and not _outgrows(blocks, rule.min_rise):
        return None
    split = least_squares_split(blocks, margin=2)
    if split is None or split.shape != "ramp":
        return None
    low, high = (int(steps[parts[min(k, _BLOCKS - 1)][0]]) for k in (max(split.low - 1, 0), split.high))
    return _Ramp(steps=steps, values=row, onset=(low, high), rise=rise, level=float(tail[0]))


def _share_rising(blocks: Floats) -> float:
    """Share of all pairs of blocks of which the later one is higher (Kendall 1938)."""
    earlier, later = np.triu_indices(blocks.size, k=1)
    return float(np.mean(blocks[later] > blocks[earlier]))


def _straight(blocks: Floats) -> Floats:
    """The line through the blocks: what is left is their noise."""
    x = np.arange(blocks.size, dtype=np.float64)
    slope, level = np.polyfit(x, blocks, 1)
    return np.asarray(slope * x + level, dtype=np.float64)


def _outgrows(blocks: Floats, min_rise: float) -> bool:
    half = blocks.size // 2
    before, after = float(blocks[half] - blocks[0]), float(blocks[-1] - blocks[half])
    return after >= min_rise and after > before


def _finding(view: RunView, rule: Rule, names: tuple[str, ...], layers: tuple[int, ...], ramp: _Ramp) -> Finding:
    last = int(ramp.steps[-1])
    tail = ramp.values[-max(8, ramp.values.size // _BLOCKS) :]
    return Finding(
        kind="drift",
        series=names,
        layers=layers,
        onset=ramp.onset,
        severity=min(1.0, 0.3 + 0.2 * ramp.rise / rule.min_rise),
        statement=(
            f"{rule.words} slowly from steps {ramp.onset[0]}-{ramp.onset[1]} on: {rule.template} goes from "
            f"{np.exp(ramp.level):.3g} to {np.exp(median(tail)):.3g} by step {last}"
        ),
        evidence=tuple(series_ref(view.run_id, name, ramp.onset[0], last) for name in names[:8]),
        probe=Probe(
            series=names,
            reading=Reading.LOG_LEVEL,
            normal=(ramp.level,) * len(names),
            anomalous=(median(tail),) * len(names),
            noise=(max(difference_sigma(ramp.values), 1e-3),) * len(names),
            since=ramp.onset[1],
            until=last,
        ),
        specificity=rule.specificity,
    )
