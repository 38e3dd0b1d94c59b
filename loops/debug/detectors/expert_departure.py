"""Experts that depart from their peers while the layer's mean cannot show it: the mean of the loads is fixed.

A starved expert gets (almost) no token any more and stops learning; a swamped one gets what the others should have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loops.debug.finding import Finding, layers_phrase, series_ref, words
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView
from loops.statistics.location import difference_sigma, median

_NAME = re.compile(r"^expert_(?:load|share)/layers\.(\d+)/experts\.(\d+)$")
_MIN_EXPERTS, _MIN_POINTS = 4, 30
_STARVED = 0.05  # of the mean load, over the last third
_SHARE = 0.1  # of a layer's experts; one idle expert among many is usual
_FULL, _FACTOR = 0.6, 2.0  # of all tokens go to one expert, and this many times what it had in the first third
_MOST = 8  # series that are named and probed

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """`loads` [E, S] relative to the mean of the layer, at `steps`; `names` in the order of the experts."""

    number: int
    names: tuple[str, ...]
    steps: NDArray[np.int64]
    loads: Floats


def detect(view: RunView) -> list[Finding]:
    """At most one finding for starved experts and one for swamped ones, over all layers."""
    layers = _layers(view)
    starved = {layer.number: (layer, found) for layer in layers if (found := _starved(layer)).size}
    swamped = {layer.number: (layer, found) for layer in layers if (found := _swamped(layer)).size}
    findings = [_finding(view, starved, "get almost no token")] if starved else []
    return findings + ([_finding(view, swamped, "take most of the tokens")] if swamped else [])


def _layers(view: RunView) -> list[_Layer]:
    by_layer: dict[int, dict[int, str]] = {}
    for name in view.values:
        if (match := _NAME.match(name)) is not None:
            by_layer.setdefault(int(match[1]), {})[int(match[2])] = name
    found = []
    for number, experts in sorted(by_layer.items()):
        names = tuple(experts[expert] for expert in sorted(experts))
        rows = np.stack([view.values[name] for name in names])
        complete = np.all(np.isfinite(rows), axis=0) & (rows.sum(axis=0) > 0.0)
        loads = rows[:, complete] / rows[:, complete].mean(axis=0)
        if len(names) >= _MIN_EXPERTS and loads.shape[1] >= _MIN_POINTS:
            found.append(_Layer(number=number, names=names, steps=view.steps[complete], loads=loads))
    return found


def _thirds(layer: _Layer) -> tuple[Floats, Floats]:
    """Mean load [E] over the first and the last third."""
    size = layer.steps.size // 3
    return layer.loads[:, :size].mean(axis=1), layer.loads[:, -size:].mean(axis=1)


def _starved(layer: _Layer) -> NDArray[np.intp]:
    _, late = _thirds(layer)
    found = np.flatnonzero(late < _STARVED)
    return found if found.size >= max(1.0, _SHARE * len(layer.names)) else found[:0]


def _swamped(layer: _Layer) -> NDArray[np.intp]:
    """An expert that comes to take most of its layer's tokens (an expert serves a token once, so top-k bounds it)."""
    early, late = _thirds(layer)
    return np.flatnonzero((late / len(layer.names) >= _FULL) & (late >= _FACTOR * early))


def _finding(view: RunView, found: dict[int, tuple[_Layer, NDArray[np.intp]]], text: str) -> Finding:
    layers = tuple(found)
    named = [f"{words(tuple(int(e) for e in experts))} of layer {n}" for n, (_, experts) in list(found.items())[:3]]
    more = f" and of {layers_phrase(layers[3:])}" if layers[3:] else ""
    chosen = [(layer, int(expert)) for layer, experts in found.values() for expert in experts]
    onsets = [_onset(layer, expert) for layer, expert in chosen]
    onset = min(onsets)
    last = int(view.steps[-1])
    series = tuple(layer.names[expert] for layer, expert in chosen)
    since = "all along" if onset[1] <= int(view.steps[0]) else f"since steps {onset[0]}-{onset[1]}"
    levels = [_levels(view, name, onset[1]) for name in series[:_MOST]]
    return Finding(
        kind="expert_departure",
        series=series,
        layers=layers,
        onset=onset,
        severity=min(1.0, 0.5 + 0.05 * len(series)),
        statement=f"experts {'; '.join(named)}{more} {text} {since}",
        evidence=tuple(series_ref(view.run_id, name, onset[0], last) for name in series[:_MOST]),
        probe=Probe(
            series=series[:_MOST],
            reading=Reading.LEVEL,
            normal=tuple(level[0] for level in levels),
            anomalous=tuple(level[1] for level in levels),
            noise=tuple(level[2] for level in levels),
            since=onset[1],
            until=last,
        ),
        specificity=52,
    )


def _onset(layer: _Layer, expert: int) -> tuple[int, int]:
    """From the last point on the peers' side of the way to where it ends up, to the first that stays beyond it."""
    row = layer.loads[expert]
    half = (1.0 + median(row[-row.size // 3 :])) / 2.0
    beyond = (row < half) if half < 1.0 else (row > half)
    inside = np.flatnonzero(~beyond)
    at = min(int(inside[-1]) + 1, row.size - 1) if inside.size else 0
    first = int(np.argmax(beyond))
    return int(layer.steps[min(first, at)]), int(layer.steps[at])


def _levels(view: RunView, name: str, since: int) -> tuple[float, float, float]:
    """(normal, anomalous, noise) of one series; an expert that was never otherwise has the peers' level as normal."""
    steps, values = view.series(name)
    before, after = values[steps < since], values[steps >= since]
    peers = 1.0 if name.startswith("expert_load") else median(values)
    normal = median(before) if before.size >= 3 else peers
    return normal, median(after), max(difference_sigma(values), 1e-3)
