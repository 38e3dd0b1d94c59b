"""Data: pipelines as a graph of their stages, subsets with what each stage kept, and a run's mixture over its steps."""

from __future__ import annotations

import streamlit as st

from ui import palette, session
from ui.catalog import MixtureEvent, Subset
from ui.client import Client
from ui.components import mixture_plot, pipeline_graph
from ui.components.markup import escape
from ui.components.messages import errors_shown, show_empty
from ui.components.tables import row, table

_SUBSETS = ("Subset", "From", "Documents", "Tokens", "Kept by each stage", "Derived from")
_CHANGES = ("Step", "Source", "Weight before", "Weight from here on", "Said by", "Subset on record")
MAX_RUNS = 100


def page() -> None:
    client = session.client()
    st.html("<h1 class='lt-page'>Data</h1>")
    pipelines, mixture = st.tabs(["Pipelines and subsets", "Mixture of a run"])
    with pipelines, errors_shown():
        _show_pipelines(client)
    with mixture, errors_shown():
        _show_mixture(client)


def _show_pipelines(client: Client) -> None:
    found = {pipeline.id: pipeline for pipeline in client.pipelines()}
    if not found:
        show_empty(
            "No pipeline is on record",
            "`lathe data load FILE.json` brings a catalogue: stages (L0 to L9), and the subsets that came out of them.",
        )
        return
    wanted = st.query_params.get("pipeline")
    chosen = st.selectbox(
        "Pipeline", list(found), index=list(found).index(wanted) if wanted in found else 0,
        format_func=lambda key: f"{key}: {found[key].title}", width=480,
    )  # fmt: skip
    st.query_params["pipeline"] = chosen
    pipeline, subsets = found[chosen], client.subsets(chosen)
    st.html(pipeline_graph.render(pipeline, subsets))
    owner = f"{escape(pipeline.owner)} answers for it." if pipeline.owner else "Nobody answers for it yet."
    st.html(f"<p class='lt-muted'>{owner} L0 acquires, L1 normalises, L2 rules, L3 light models, L4 refines.</p>")
    if not subsets:
        show_empty("No subset came out of it yet", "A subset is recorded with what each stage took and kept.")
        return
    st.html("<h3>Subsets</h3>" + table(_SUBSETS, [_subset(subset) for subset in subsets]))


def _subset(subset: Subset) -> str:
    stages = "".join(
        f"<div><small>{escape(trace.stage)}</small> {pipeline_graph.kept(trace)}</div>" for trace in subset.trace
    )
    return row([
        f"<b>{escape(subset.id)}</b><div class='lt-muted'>{escape(subset.owner)}</div>", escape(subset.source),
        _count(subset.num_documents), _count(subset.num_tokens), stages or "not recorded",
        escape(", ".join(subset.parents)) or "–",
    ])  # fmt: skip


def _count(number: int | None) -> str:
    return "<span class='lt-muted'>not recorded</span>" if number is None else f"{number:,}"


def _show_mixture(client: Client) -> None:
    runs = {run.id: run for run in client.runs(role="training", limit=MAX_RUNS)}
    if not runs:
        show_empty("No training is on record", "`lathe train` starts one; `lathe ingest` reads logs you have.")
        return
    wanted = st.query_params.get("run")
    if wanted and wanted not in runs:
        runs[wanted] = client.run(wanted).run
    run_id = st.selectbox(
        "Run", list(runs), index=list(runs).index(wanted) if wanted in runs else 0,
        format_func=lambda key: runs[key].name, width=480,
    )  # fmt: skip
    st.query_params["run"] = run_id
    found = client.mixture(run_id)
    if not found.events:
        show_empty(
            "The mixture of this run is not on record",
            "A training that declares `data.mixture.SOURCE` in its configuration fills it.",
        )
        return
    st.plotly_chart(
        mixture_plot.figure(found.events, runs[run_id].last_step, palette.current()),
        key=f"mixture:{run_id}",
        config={"displayModeBar": False},
        alt="weight of each source over steps",
    )
    st.html("<h3>Every weight that was set or changed</h3>" + table(_CHANGES, [_change(each) for each in found.events]))


def _change(event: MixtureEvent) -> str:
    said = "declared" if event.declared else "really used"
    before, after = ("–" if weight is None else f"{weight:.4g}" for weight in (event.before, event.after))
    subset = escape(event.subset_id) if event.subset_id else "<span class='lt-muted'>none of this name</span>"
    return row([str(event.step), escape(event.source), before, after, said, subset])
