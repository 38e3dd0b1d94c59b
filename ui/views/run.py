"""One run: chosen series with what changed, a map of all layers, its segments and checkpoints."""

from __future__ import annotations

import streamlit as st

from ui import links, palette, session
from ui.case.curve import inside
from ui.client import Client
from ui.components import chips, layer_map, units
from ui.components.markup import escape, when
from ui.components.messages import errors_shown, show_empty
from ui.components.series_plot import BUCKETS, Line, Plot, Window, marks, show_changes, show_zoomable
from ui.records import Checkpoint, Run, RunDetail, Segment

LIVE_S = 2.0
MAX_CHOSEN = 8
_FIRST_CHOICE = ("lm_loss", "loss")


def page() -> None:
    run_id = st.query_params.get("run")
    if run_id is None:
        show_empty("No run chosen", "Open one from the list of runs.")
        return
    client = session.client()
    detail = client.run(run_id)
    _show_head(detail)
    names = client.series_names(run_id)
    if not names:
        show_empty("This run has not made a step yet", "Its first point appears here by itself.")
        return
    curves, map_ = st.tabs(["Curves", "Map of layers"])
    with curves:
        _show_curves(client, detail.run, names)
    with map_:
        _show_map(client, detail.run, names)
    st.html(_segments(detail.segments) + _checkpoints(detail.checkpoints))


def _show_head(detail: RunDetail) -> None:
    run = detail.run
    facts = [
        chips.state(run.state),
        chips.fact("last step", run.last_step),
        chips.fact("recorded", when(run.created_at)),
    ]
    for name in ("tokens_per_second", "lm_loss"):
        if name in detail.latest:
            facts.append(chips.fact(units.axis_title(name), f"{detail.latest[name]:,.4g}"))
    message = f"<p>{escape(run.message)}</p>" if run.message else ""
    st.html(
        f"<h1 class='lt-page'>{escape(run.name)}</h1><div class='lt-facts'>{''.join(facts)}</div>{_ways(run)}{message}"
    )


def _ways(run: Run) -> str:
    """Where else this run is looked at."""
    ways = [("Timeline", links.timeline(run_id=run.id)), ("Ask about it", links.ask(run_id=run.id))]
    if run.parent_run_id:
        ways.append(("Compare with where it started from", links.compare([run.parent_run_id, run.id])))
    else:
        ways.append(("Compare with another", links.compare([run.id])))
    return " · ".join(f'<a href="{escape(address)}" target="_self">{words}</a>' for words, address in ways)


def _show_curves(client: Client, run: Run, names: tuple[str, ...]) -> None:
    chosen = st.multiselect(
        "Series of one unit share a plot", names, default=_default_series(names), max_selections=MAX_CHOSEN
    )
    by_unit: dict[str, list[str]] = {}
    for name in chosen:
        by_unit.setdefault(units.axis_title(name), []).append(name)
    every = LIVE_S if run.state == "running" else None
    left, right = st.columns([2.6, 1], gap="medium")
    with left:
        for unit, group in by_unit.items():
            st.fragment(_draw, run_every=every)(client, run.id, unit, tuple(group))
    with right:
        show_changes(marks(client.timeline(run.id)))


def _default_series(names: tuple[str, ...]) -> list[str]:
    """The series of the address, else the loss."""
    wanted = st.query_params.get("series")
    if wanted in names:
        return [str(wanted)]
    return [next((name for name in _FIRST_CHOICE if name in names), names[0])]


def _draw(client: Client, run_id: str, unit: str, group: tuple[str, ...]) -> None:
    def draw(window: Window) -> Plot:
        found = client.points(run_id, group, buckets=BUCKETS, lo=window[0], hi=window[1])
        shown = tuple(mark for mark in marks(client.timeline(run_id)) if inside(mark, window))
        lines = tuple(Line(label=units.short(series.name), series=series) for series in found)
        return Plot(lines=lines, y_title=unit, marks=shown, onset=_asked_steps())

    with errors_shown():
        show_zoomable(f"run:{run_id}:{','.join(group)}", f"{', '.join(group)} over steps", draw, palette.current())


def _asked_steps() -> tuple[int, int] | None:
    """The slice that an evidence link points to."""
    lo, hi = st.query_params.get("lo", ""), st.query_params.get("hi", "")
    return (int(lo), int(hi)) if lo.isdecimal() and hi.isdecimal() else None


def _show_map(client: Client, run: Run, names: tuple[str, ...]) -> None:
    statistics = layer_map.statistics(names)
    if not statistics:
        show_empty("This run has no per-layer series", "A training that writes names like `max_vio/layers.3` fills it.")
        return
    options = sorted(statistics)
    wanted = options.index("max_vio") if "max_vio" in options else 0
    statistic = st.selectbox("Statistic", options, index=wanted)
    every = LIVE_S if run.state == "running" else None
    st.fragment(layer_map.show, run_every=every)(client, run.id, statistic, statistics[statistic], palette.current())


def _segments(segments: tuple[Segment, ...]) -> str:
    rows = "".join(
        f"<tr><td>{s.number}</td><td>{s.start_step}–{s.last_step}</td>"
        f"<td><code>{escape(s.code_version[:10])}</code></td><td>{s.seed}</td><td>{s.dp_size}</td>"
        f"<td>{escape(when(s.started_at))}</td><td>{escape(s.end_reason or 'running')}"
        f"<div class='lt-muted'>{escape(s.message)} {escape(s.remedy)}</div></td></tr>"
        for s in segments
    )
    head = (
        "<tr><th>Segment</th><th>Steps</th><th>Code</th><th>Seed</th><th>Data-parallel</th><th>Started</th>"
        "<th>Ended</th></tr>"
    )
    return f"<h3>Segments</h3><table class='lt-table'><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _checkpoints(checkpoints: tuple[Checkpoint, ...]) -> str:
    if not checkpoints:
        return ""
    rows = "".join(
        f"<tr><td>{c.step}</td><td>{c.segment}</td><td>{c.size_bytes / 1e6:.1f}</td>"
        f"<td><code>{escape(c.sha256[:16])}</code></td></tr>"
        for c in checkpoints
    )
    head = "<tr><th>Step</th><th>Segment</th><th>Size (MB)</th><th>SHA-256</th></tr>"
    return f"<h3>Checkpoints</h3><table class='lt-table'><thead>{head}</thead><tbody>{rows}</tbody></table>"
