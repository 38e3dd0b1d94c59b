"""One run: chosen series with what changed, a map of all layers, its segments and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import plotly.graph_objects as go
import streamlit as st

from ui import links, palette, session
from ui.case import findings
from ui.case.curve import inside, of_segment
from ui.catalog import Config
from ui.client import Client
from ui.components import chips, layer_map, units
from ui.components.markup import escape, when
from ui.components.messages import errors_shown, show_empty
from ui.components.series_plot import BUCKETS, WHOLE, Line, Plot, Window, figure, marks, show_changes, show_zoomable
from ui.components.tables import row, table
from ui.records import Checkpoint, Run, RunDetail, Segment, Series

LIVE_S = 2.0
MAX_CHOSEN = 8
_GOING_ON = ("created", "running")
_LEAST_MARGIN = 50  # steps
_FIRST_CHOICE = ("lm_loss", "loss")
_CURVES, _LAYERS, _EXPERTS = "curves", "layers", "experts"
_VIEWS = {_CURVES: "Curves", _LAYERS: "Map of layers", _EXPERTS: "Expert load"}


def page() -> None:
    run_id = st.query_params.get("run")
    if run_id is None:
        show_empty("No run chosen", "Open one from the list of runs.")
        return
    client = session.client()
    detail = client.run(run_id)
    st.fragment(_show_head, run_every=_every(detail.run))(client, run_id)
    names = client.series_names(run_id)
    if not names:
        st.fragment(_wait_for_a_step, run_every=_every(detail.run))(client, run_id)
        return
    view = _choose_view()
    with errors_shown():
        if view == _CURVES:
            _show_curves(client, detail, names)
        else:
            _show_map(client, detail.run, names, view)
    with errors_shown():
        findings.show(client, run_id)
    st.html(_segments(detail.segments))
    with errors_shown():
        _show_config(client, run_id)
    st.html(_checkpoints(detail.checkpoints))


def _choose_view() -> str:
    """Only what is looked at is asked for; the address follows."""
    wanted = st.query_params.get("view", _CURVES)
    chosen = st.segmented_control(
        "View",
        list(_VIEWS),
        default=wanted if wanted in _VIEWS else _CURVES,
        format_func=lambda key: _VIEWS[key],
        label_visibility="collapsed",
        required=True,
    )
    st.query_params["view"] = chosen
    return chosen


def _every(run: Run) -> float | None:
    """How often what may change is drawn again, in seconds."""
    return LIVE_S if run.state in _GOING_ON else None


def _wait_for_a_step(client: Client, run_id: str) -> None:
    with errors_shown():
        if client.series_names(run_id):
            st.rerun()
        show_empty("This run has not made a step yet", "Its first point appears here by itself.")


def _show_head(client: Client, run_id: str) -> None:
    with errors_shown():
        _draw_head(client.run(run_id))


def _draw_head(detail: RunDetail) -> None:
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


def _show_curves(client: Client, detail: RunDetail, names: tuple[str, ...]) -> None:
    run = detail.run
    chosen = st.multiselect(
        "Series; those of one unit share a plot", names, default=_default_series(names), max_selections=MAX_CHOSEN
    )
    resumed = len(detail.segments) > 1
    superseded = resumed and st.toggle("With the points that resumes superseded, a line a segment")
    by_unit: dict[str, list[str]] = {}
    for name in chosen:
        by_unit.setdefault(units.axis_title(name), []).append(name)
    every = _every(run)
    left, right = st.columns([2.6, 1], gap="medium")
    with left:
        if not chosen:
            show_empty("No series chosen", "Choose one above; type to search among them.")
        st.fragment(_draw_all, run_every=every)(client, run.id, by_unit, superseded=superseded)
    with right:
        st.fragment(_show_marks, run_every=every)(client, run.id)


def _show_marks(client: Client, run_id: str) -> None:
    with errors_shown():
        show_changes(marks(client.timeline(run_id)))


def _default_series(names: tuple[str, ...]) -> list[str]:
    """The series of the address, else the loss."""
    wanted = st.query_params.get("series")
    if wanted in names:
        return [str(wanted)]
    return [next((name for name in _FIRST_CHOICE if name in names), names[0])]


def _draw_all(client: Client, run_id: str, by_unit: dict[str, list[str]], *, superseded: bool) -> None:
    """One fragment, so that a box drawn on one plot is the window of all."""
    for unit, group in by_unit.items():
        _draw(client, run_id, unit, tuple(group), superseded=superseded)


def _draw(client: Client, run_id: str, unit: str, group: tuple[str, ...], *, superseded: bool) -> None:
    def draw(window: Window) -> go.Figure:
        view = "full" if superseded else "canonical"
        found = client.points(run_id, group, buckets=BUCKETS, lo=window[0], hi=window[1], view=view)
        shown = tuple(mark for mark in marks(client.timeline(run_id)) if inside(mark, window))
        lines = tuple(line for series in found for line in _lines(series, superseded=superseded))
        return figure(Plot(lines=lines, y_title=unit, marks=shown, onset=_asked_steps()), palette.current())

    with errors_shown():
        key = f"run:{run_id}:{','.join(group)}:{superseded}"
        begin = _around(_asked_steps())
        show_zoomable(key, f"{', '.join(group)} over steps", draw, shared=f"run:{run_id}:{begin}", begin=begin)


def _lines(series: Series, *, superseded: bool) -> Iterator[Line]:
    label = units.short(series.name)
    if not superseded:
        yield Line(label=label, series=series)
        return
    for number in sorted(set(series.segments)):
        yield Line(label=f"{label}, segment {number}", series=of_segment(series, number))


def _asked_steps() -> tuple[int, int] | None:
    """The slice that an evidence link points to."""
    lo, hi = st.query_params.get("lo", ""), st.query_params.get("hi", "")
    return (int(lo), int(hi)) if lo.isdecimal() and hi.isdecimal() else None


def _around(steps: tuple[int, int] | None) -> Window:
    """The asked steps with what is needed around them to see that they are special."""
    if steps is None:
        return WHOLE
    lo, hi = steps
    margin = max(_LEAST_MARGIN, 2 * (hi - lo))
    return max(0, lo - margin), hi + margin


def _show_map(client: Client, run: Run, names: tuple[str, ...], view: str) -> None:
    found, row_word, example = (
        (layer_map.statistics(names), "layer", "max_vio/layers.3")
        if view == _LAYERS
        else (layer_map.experts(names), "expert", "expert_load/layers.3/experts.5")
    )
    if not found:
        show_empty(
            f"This run has no series of each {row_word}", f"A training that writes names like `{example}` fills it."
        )
        return
    options = sorted(found, key=_in_order)
    first = next((option for option in options if option.startswith("max_vio")), options[0])
    wanted = st.query_params.get("statistic")
    chosen = st.selectbox("Statistic", options, index=options.index(wanted if wanted in options else first), width=380)
    st.query_params["statistic"] = chosen
    every = LIVE_S if run.state == "running" else None
    st.fragment(layer_map.show, run_every=every)(client, run.id, chosen, found[chosen], row_word, palette.current())


def _in_order(option: str) -> tuple[str, int]:
    """Layer 10 after layer 9."""
    head, _, number = option.rpartition(" ")
    return (head, int(number)) if number.isdecimal() else (option, -1)


def _show_config(client: Client, run_id: str) -> None:
    """What the newest segment declared against what was really used: only where the two differ, or one is silent."""
    config = client.config(run_id)
    if not config.declared and not config.effective:
        return
    both = sorted(config.declared.keys() & config.effective.keys())
    differ = [key for key in both if config.declared[key] != config.effective[key]]
    st.html("<h3>Declared and really used</h3>")
    if not both:
        show_empty("Only one side is on record", "A training that logs what it really used can be compared here.")
    elif differ:
        rows = [_field(key, config) for key in differ]
        st.html(table(("Field", "Declared", "Really used"), rows, look="lt-fields"))
    else:
        st.html(f"<p>All {len(both)} fields that both sides name agree.</p>")
    with st.expander(f"All {len(config.declared.keys() | config.effective.keys())} fields"):
        every = sorted(config.declared.keys() | config.effective.keys())
        st.html(table(("Field", "Declared", "Really used"), [_field(key, config) for key in every], look="lt-fields"))


def _field(key: str, config: Config) -> str:
    sides = [
        escape(side[key]) if key in side else "<span class='lt-muted'>not recorded</span>"
        for side in (config.declared, config.effective)
    ]
    return row([f"<code>{escape(key)}</code>", *sides])


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
