"""Compare 2 to 10 runs: what differs in configuration, code and data, and their curves on one axis."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from ui import palette, session
from ui.client import Client
from ui.components import diff_view, difference, eval_table, units
from ui.components.markup import escape
from ui.components.messages import errors_shown, show_empty
from ui.components.series_plot import BUCKETS, Line, Plot, Window, figure, show_zoomable
from ui.records import Commit, Difference, Run

MOST = 10
MOST_COMMITS = 12
LIMIT = 200
_FIRST_CHOICE = ("lm_loss", "loss")


def page() -> None:
    client = session.client()
    st.html("<h1 class='lt-page'>Compare runs</h1>")
    known = {run.id: run for run in client.runs(limit=LIMIT)}
    if len(known) < 2:
        show_empty("There are not two runs yet", "`lathe train` starts one; `lathe demo` makes several.")
        return
    chosen = _choose(client, known)
    if len(chosen) < 2:
        show_empty("Choose two to ten runs", "The first one is what the others are compared with.")
        return
    with errors_shown():
        _show_curves(client, chosen)
    with errors_shown():
        found = [client.difference(chosen[0].id, run.id) for run in chosen[1:]]
        evaluated = eval_table.render(chosen, [client.scores(run.id) for run in chosen])
        st.html(f"<h3>Evaluations</h3>{evaluated}{difference.render(chosen, found)}")
        _show_code(client, chosen[0], list(zip(chosen[1:], found, strict=True)))


def _choose(client: Client, known: dict[str, Run]) -> list[Run]:
    """Those of the address are chosen at first; the address follows the choice."""
    asked = [run_id for run_id in st.query_params.get("runs", "").split(",") if run_id][:MOST]
    for run_id in asked:
        if run_id not in known:  # older than the newest ones that were listed
            known[run_id] = client.run(run_id).run
    chosen = st.multiselect(
        "Runs; the first is what the others are compared with",
        list(known),
        default=asked,
        max_selections=MOST,
        format_func=lambda run_id: _named(known[run_id]),
        placeholder="Choose two to ten",
    )
    if chosen:
        st.query_params["runs"] = ",".join(chosen)
    return [known[run_id] for run_id in chosen]


def _named(run: Run) -> str:
    return run.id if run.name == run.id else f"{run.name} · {run.id}"


def _show_curves(client: Client, runs: list[Run]) -> None:
    """One series that at least two of the runs have, on one step axis."""
    by_run = {run.id: set(client.series_names(run.id)) for run in runs}
    counted = sorted(set().union(*by_run.values()))
    shared = [name for name in counted if sum(name in names for names in by_run.values()) > 1]
    if not shared:
        show_empty("These runs have no series in common", "Below is what their records say of their differences.")
        return
    first = next((name for name in _FIRST_CHOICE if name in shared), shared[0])
    name = st.selectbox("Series", shared, index=shared.index(first), width=380)
    having = [run for run in runs if name in by_run[run.id]]
    st.fragment(_draw)(client, having, name)
    if missing := [run.name for run in runs if run not in having]:
        st.html(f"<p class='lt-muted'>Not recorded for {escape(', '.join(missing))}.</p>")


def _draw(client: Client, runs: list[Run], name: str) -> None:
    def draw(window: Window) -> go.Figure:
        lo, hi = window
        found = [client.points(run.id, (name,), buckets=BUCKETS, lo=lo, hi=hi)[0] for run in runs]
        labels = difference.labels(runs)
        lines = tuple(Line(label=labels[run.id], series=series) for run, series in zip(runs, found, strict=True))
        return figure(Plot(lines=lines, y_title=units.axis_title(name)), palette.current())

    with errors_shown():
        key = f"compare:{','.join(run.id for run in runs)}:{name}"
        show_zoomable(key, f"{name} of {len(runs)} runs over steps", draw)


def _show_code(client: Client, base: Run, found: list[tuple[Run, Difference]]) -> None:
    """What each commit changes that one side has and the other lacks; read when a person asks for it."""
    for run, one in found:
        if "code" in one.not_recorded or one.code.before == one.code.after:
            continue
        _show_commits(client, run, one.code.commits, f"only in {run.name}")
        lacking = client.difference(run.id, base.id).code.commits
        _show_commits(client, base, lacking, f"in {base.name}, not in {run.name}")


def _show_commits(client: Client, run: Run, commits: Sequence[Commit], where: str) -> None:
    for commit in reversed(commits[-MOST_COMMITS:]):
        key = f"code:{run.id}:{commit.hash}:{where}"
        with st.expander(f"What {commit.hash[:10]} changes", key=key, on_change="rerun") as place:
            if place.open:
                diff = client.commit_diff(run.project_id, commit.hash)
                st.html(
                    f"<p><b>{escape(commit.subject)}</b> <span class='lt-muted'>{escape(where)}</span></p>"
                    + (diff_view.render(diff) if diff else "<p class='lt-muted'>It changes no text.</p>")
                )
