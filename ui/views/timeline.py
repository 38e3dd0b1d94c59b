"""Timeline of a run or of a project: what changed and happened, at which step, in lanes and as a list."""

from __future__ import annotations

import streamlit as st

from ui import links, palette, session
from ui.client import Client
from ui.components import chips, difference, event_lanes
from ui.components.markup import escape, when
from ui.components.messages import show_empty
from ui.components.tables import row, table
from ui.records import Run, TimelineEvent

MOST_RUNS = 12
MOST_ROWS = 300
_QUIET = frozenset({"checkpoint", "note"})  # left out at first: they are many
Lanes = dict[str, tuple[Run, tuple[TimelineEvent, ...]]]


def page() -> None:
    client = session.client()
    run_id = st.query_params.get("run")
    if run_id is not None:
        run = client.run(run_id).run
        st.html(f"<h1 class='lt-page'>Timeline of {escape(run.name)}</h1>{_crumbs(run)}")
        _show({run.name: (run, client.timeline(run.id))}, by_kind=True)
        return
    st.html("<h1 class='lt-page'>Timeline</h1>")
    projects = [project.id for project in client.projects()]
    if not projects:
        show_empty("No project has been recorded yet", "`lathe train PROJECT` records one with its first run.")
        return
    wanted = st.query_params.get("project")
    project = st.selectbox("Project", projects, index=projects.index(wanted) if wanted in projects else 0, width=380)
    st.query_params["project"] = project
    with_reruns = st.toggle("With the re-runs of investigations")
    _show(_lanes(client, project, role=None if with_reruns else "training"), by_kind=False)


def _crumbs(run: Run) -> str:
    curves = f'<a href="{escape(links.run(run.id))}" target="_self">Its curves</a>'
    everything = escape(links.timeline(project=run.project_id))
    return f'<p>{curves} · <a href="{everything}" target="_self">All runs of {escape(run.project_id)}</a></p>'


def _lanes(client: Client, project: str, *, role: str | None) -> Lanes:
    """The newest runs first."""
    runs = client.runs(project=project, role=role, limit=MOST_RUNS)
    names = difference.labels(runs)
    return {names[run.id]: (run, client.timeline(run.id)) for run in runs}


def _show(lanes: Lanes, *, by_kind: bool) -> None:
    kinds = sorted({event.kind for _, events in lanes.values() for event in events})
    if not kinds:
        show_empty("Nothing is on record yet", "A run writes its code, configuration, data and resumes here by itself.")
        return
    loud = [kind for kind in kinds if kind not in _QUIET] or kinds
    chosen = set(st.pills("Kinds", kinds, selection_mode="multi", default=loud, label_visibility="collapsed"))
    kept = {name: (run, [e for e in events if e.kind in chosen]) for name, (run, events) in lanes.items()}
    if not any(events for _, events in kept.values()):
        show_empty("Nothing of these kinds", "Choose another kind above.")
        return
    drawn = {name: events for name, (_, events) in kept.items()}
    if by_kind:
        own = next(iter(drawn.values()))
        drawn = {kind: [event for event in own if event.kind == kind] for kind in kinds if kind in chosen}
    st.plotly_chart(
        event_lanes.figure(drawn, palette.current()),
        key=f"lanes:{','.join(run.id for run, _ in kept.values())}",
        config={"displayModeBar": False},
        alt="what changed and happened over optimizer steps",
    )
    rows = [(run, event) for run, events in kept.values() for event in events]
    rows.sort(key=lambda pair: (pair[1].at, pair[1].step), reverse=True)
    _show_rows(rows, with_run=not by_kind)


def _show_rows(rows: list[tuple[Run, TimelineEvent]], *, with_run: bool) -> None:
    heads = ("Step", "Kind", "What", *(("Run",) if with_run else ()), "When")
    st.html(table(heads, [row(_cells(run, event, with_run=with_run)) for run, event in rows[:MOST_ROWS]]))
    if len(rows) > MOST_ROWS:
        st.html(
            f"<p class='lt-muted'>The newest {MOST_ROWS} of {len(rows)}; <code>lathe timeline</code> lists all.</p>"
        )


def _cells(run: Run, event: TimelineEvent, *, with_run: bool) -> list[str]:
    near = links.run(run.id, lo=str(max(0, event.step - 20)), hi=str(event.step + 20))
    step = f'<a href="{escape(near)}" target="_self" title="its curves around this step">{event.step}</a>'
    own = f'<a href="{escape(links.timeline(run_id=run.id))}" target="_self">{escape(run.name)}</a>'
    return [
        step, chips.tag(event.kind), escape(event.title), *((own,) if with_run else ()), escape(when(event.at)),
    ]  # fmt: skip
