"""Plots of a case as SVG: the quantity that went wrong, what changed, and what the re-runs showed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from context_store import Store
from context_store.records import Anomaly, SeriesData
from contracts.enums import TimelineKind

_BUCKETS = 400
_MAX_PLOTS, _MAX_RERUNS, _MAX_MARKERS = 3, 4, 8
_MARGIN, _MIN_WINDOW = 3, 30
_QUIET = frozenset({TimelineKind.CHECKPOINT, TimelineKind.EVAL, TimelineKind.NOTE})


@dataclass(frozen=True, kw_only=True)
class Plot:
    """`svg`: one `<svg>` element; the same data give the same bytes."""

    title: str
    svg: str


@dataclass(frozen=True, kw_only=True)
class _Line:
    label: str
    data: SeriesData


def plots_of_case(store: Store, case_id: str) -> list[Plot]:
    """One for each of the first anomalies that have a series."""
    anomalies = store.knowledge.anomalies(investigation_id=case_id)
    return [_plot(store, case_id, each) for each in anomalies if each.series][:_MAX_PLOTS]


def _plot(store: Store, case_id: str, anomaly: Anomaly) -> Plot:
    name, (lo, hi) = anomaly.series[0], anomaly.onset
    width = max(_MIN_WINDOW, _MARGIN * (hi - lo))
    window = max(0, lo - width), hi + width
    lines = [_Line(label="recorded", data=store.series.downsample(anomaly.run_id, name, _BUCKETS, *window))]
    for each in store.knowledge.diagnostics(case_id):
        if each.measure is not None and each.run_id and name in store.series.names(each.run_id):
            data = store.series.downsample(each.run_id, name, _BUCKETS, *window)
            lines.append(_Line(label=f"re-run: {each.kind}", data=data))
    kinds = [kind for kind in TimelineKind if kind not in _QUIET]
    events = store.timeline.list(anomaly.run_id, *window, kinds)
    title = f"{name} of {anomaly.run_id}"
    steps = sorted({each.step for each in events})[:_MAX_MARKERS]
    return Plot(title=title, svg=_svg(title, lines[: 1 + _MAX_RERUNS], steps, anomaly.onset))


def _svg(title: str, lines: Sequence[_Line], changes: Sequence[int], onset: tuple[int, int]) -> str:
    """Drawn without a display and without reading anybody's settings; stored names are never read as formulas."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "lathe", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.6, 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for number, line in enumerate(lines):
            axes.plot(line.data.steps, line.data.values, label=line.label, linewidth=1.8 if number == 0 else 1.0)
        for number, step in enumerate(changes):
            axes.axvline(step, color="0.6", linestyle="--", linewidth=0.8, label="change" if number == 0 else None)
        axes.axvspan(onset[0], max(onset[1], onset[0] + 1), color="tab:red", alpha=0.12, label="onset")
        axes.set_title(title, parse_math=False, fontsize=10)
        axes.set_xlabel("step")
        axes.legend(fontsize=8)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
