"""Line plots as self-contained SVG, for the demo's Markdown report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 34, 34
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#7f7f7f", "#bcbd22")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve. Points that are not finite are left out."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    faded: bool = False


@dataclass(frozen=True, kw_only=True)
class Marker:
    """A vertical line at a step, with a few words."""

    step: float
    label: str


@dataclass(frozen=True, kw_only=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def line_plot(title: str, lines: Sequence[Line], markers: Sequence[Marker] = ()) -> str:
    """The SVG document. Without any finite point it says so."""
    points = [(x, y) for line in lines for x, y in _finite(line)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="11">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}</text>'
    )
    if not points:
        return head + f'<text x="{LEFT}" y="{HEIGHT // 2}">no points</text></svg>\n'
    x_scale = _scale([x for x, _ in points], LEFT, WIDTH - RIGHT)
    y_scale = _scale([y for _, y in points], HEIGHT - BOTTOM, TOP)
    body = [*_axes(x_scale, y_scale), *_markers(markers, x_scale), *_curves(lines, x_scale, y_scale)]
    return "\n".join([head, *body, "</svg>"]) + "\n"


def _finite(line: Line) -> Iterable[tuple[float, float]]:
    return ((x, y) for x, y in zip(line.steps, line.values, strict=True) if math.isfinite(y))


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    low, high = min(values), max(values)
    margin = (high - low) * 0.04 or max(abs(high), 1.0) * 0.05
    return _Scale(low=low - margin, high=high + margin, start=start, end=end)


def _axes(x_scale: _Scale, y_scale: _Scale) -> Iterable[str]:
    for value in _ticks(y_scale):
        y = y_scale.at(value)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e5e5e5"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{value:.4g}</text>'
    for value in _ticks(x_scale):
        x = x_scale.at(value)
        yield f'<text x="{x:.1f}" y="{HEIGHT - 16}" text-anchor="middle" fill="#555">{value:.4g}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end" fill="#555">step</text>'


def _ticks(scale: _Scale) -> list[float]:
    """Four to ten round values inside the scale."""
    rough = (scale.high - scale.low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    width = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first, last = math.ceil(scale.low / width), math.floor(scale.high / width)
    return [index * width for index in range(first, last + 1)]


def _markers(markers: Sequence[Marker], x_scale: _Scale) -> Iterable[str]:
    for marker in markers:
        x = x_scale.at(marker.step)
        yield f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#999" stroke-dasharray="4 3"/>'
        yield f'<text x="{x + 4:.1f}" y="{TOP + 9}" fill="#666">{escape(marker.label)}</text>'


def _curves(lines: Sequence[Line], x_scale: _Scale, y_scale: _Scale) -> Iterable[str]:
    for index, line in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        opacity = 0.35 if line.faded else 1.0
        path = " ".join(f"{x_scale.at(x):.1f},{y_scale.at(y):.1f}" for x, y in _finite(line))
        yield (
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-opacity="{opacity}"/>'
            f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 12 + 16 * index}" fill="{colour}">{escape(line.label)}</text>'
        )
