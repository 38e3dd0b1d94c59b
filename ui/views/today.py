"""Today: is everything well, what needs you, and the case that is open, with its proof and its decision."""

from __future__ import annotations

import streamlit as st

from ui import links, palette, session
from ui.case import aftermath, curve, decision, finding, memory, reruns, suspects, verdict
from ui.client import Client
from ui.components import chips, feed, units
from ui.components.markup import escape, when, words
from ui.components.messages import errors_shown, show_empty
from ui.components.series_plot import marks, show_changes, show_zoomable
from ui.records import Case, Health, Investigation, Proposal, Run

LIVE_S = 2.0
IDLE_S = 10.0
MAX_RUNNING = 3


def page() -> None:
    client, health = session.client(), session.health()
    investigations = client.investigations()
    case = _case(client, investigations)
    run = _run(client, health, case)
    st.fragment(_show_headline, run_every=LIVE_S)(client, health, case)
    if run is None:
        show_empty(
            "No training has been recorded yet",
            "Run `lathe demo` to watch Lathe find, prove and fix a fault in a real training, "
            "or `lathe train` to start your own.",
        )
        return
    _show_curve(client, run, case)
    if case is not None:
        _show_case(client, case)
    _show_others(investigations, case)


def _case(client: Client, investigations: tuple[Investigation, ...]) -> Case | None:
    """The case in the address, else the newest that is open, else the newest."""
    wanted = st.query_params.get("investigation")
    if wanted is None:
        still_open = [found for found in investigations if found.state != "closed"]
        newest = max(still_open or investigations, key=lambda found: found.opened_at, default=None)
        wanted = newest.id if newest else None
    return client.investigation(wanted) if wanted else None


def _run(client: Client, health: Health, case: Case | None) -> Run | None:
    """The run whose curve matters: that of the case, else a running one, else the newest training."""
    if case is not None:
        return case.run
    trainings = health.running or client.runs(role="training", limit=1)
    return trainings[0] if trainings else None


def _show_headline(client: Client, built_with: Health, case: Case | None) -> None:
    """Call it inside a fragment: the whole page is drawn again when it was built on something else."""
    with errors_shown():
        health = client.health()
        waiting = client.proposals(state="open") if health.needs_you else ()
        st.html(_headline(health, waiting, case))
        if _situation(health) != _situation(built_with):
            st.rerun()


def _situation(health: Health) -> tuple[object, ...]:
    return health.ok, health.needs_you, *(run.id for run in health.running)


def _headline(health: Health, waiting: tuple[Proposal, ...], case: Case | None) -> str:
    look, sign = ("well", "✔") if health.ok else ("unwell", "!")
    running = "".join(
        f'<a class="lt-running" href="{escape(links.run(run.id))}" target="_self">{escape(run.name)}'
        f"<small>step {run.last_step}</small></a>"
        for run in health.running[:MAX_RUNNING]
    )
    return (
        f'<header class="lt-health lt-{look}"><i>{sign}</i><div><h1>{escape(health.sentence)}</h1>'
        f"<p>{running or 'No training is running.'}</p></div>{_needs_you(waiting, case)}</header>"
    )


def _needs_you(waiting: tuple[Proposal, ...], case: Case | None) -> str:
    """One click to each open proposal."""
    if not waiting:
        return '<div class="lt-needs lt-none">Nothing needs you</div>'
    here = case.investigation.id if case else ""
    items = "".join(
        f'<a href="{escape(_decision_address(p, here))}" target="_self">{escape(p.title)}</a>' for p in waiting
    )
    return f'<div class="lt-needs"><b>Needs you: {len(waiting)}</b>{items}</div>'


def _decision_address(proposal: Proposal, here: str) -> str:
    anchor = f"#{decision.ANCHOR}"
    if proposal.investigation_id in (None, here):
        return anchor
    return links.investigation(str(proposal.investigation_id)) + anchor


def _show_curve(client: Client, run: Run, case: Case | None) -> None:
    """The curve and, beside it, what changed and what Lathe is doing; both keep themselves up to date."""
    left, right = st.columns([2.6, 1], gap="medium")
    grows = run.state == "running"
    works = grows or (case is not None and case.investigation.state != "closed")
    with left:
        st.fragment(_draw_curve, run_every=LIVE_S if grows else None)(client, run, case)
    with right:
        show_changes(marks(client.timeline(run.id)))
        st.fragment(feed.show, run_every=LIVE_S if works else IDLE_S)(client, case.investigation.id if case else None)


def _draw_curve(client: Client, run: Run, case: Case | None) -> None:
    with errors_shown():
        names = _names(client, run, case)
        if names is None:
            show_empty(f"{run.name} has not made a step yet", "Its first point appears here by itself.")
            return
        events = client.timeline(run.id)
        fixed = case is not None and curve.fix_segment(case, events) is not None
        focus = units.together(names.focus)
        keys = curve.legend(names, faulty=case is not None, fixed=fixed)
        st.html(f'<div class="lt-title"><b>{escape(run.name)}: {escape(focus)}</b><div>{keys}</div></div>')
        show_zoomable(
            f"curve:{run.id}:{names.focus[0]}",
            f"{focus} of {run.name} over optimizer steps",
            lambda window: curve.plot(client, case, run.id, names, events, window),
            palette.current(),
        )


def _names(client: Client, run: Run, case: Case | None) -> curve.Names | None:
    """What departs, by the statistic that the person chose; the loss of a run without a finding."""
    if case is None or case.leading is None or not case.leading.series:
        return curve.names_of_run(client, run.id)
    statistics = curve.by_statistic(case.leading)
    chosen = next(iter(statistics))
    if len(statistics) > 1:
        label = "What departs (the first decides the verdict)"
        chosen = st.selectbox(label, list(statistics), width=380)
    return curve.names_around(client, run.id, statistics[chosen])


def _show_case(client: Client, case: Case) -> None:
    finding.show(case)
    suspects.show(case)
    reruns.show(client, case, palette.current())
    verdict.show(case)
    decision.show(case)
    aftermath.show(client, case, palette.current())
    memory.show(case)


def _show_others(investigations: tuple[Investigation, ...], shown: Case | None) -> None:
    here = shown.investigation.id if shown else ""
    rows = "".join(_other(other) for other in investigations if other.id != here)
    if rows:
        head = "<tr><th>Case</th><th>State</th><th>Verdict</th><th>Opened</th></tr>"
        st.html(f'<h3>Other cases</h3><table class="lt-table"><thead>{head}</thead><tbody>{rows}</tbody></table>')


def _other(case: Investigation) -> str:
    outcome = chips.verdict(case.verdict, case.scope) if case.verdict else ""
    return (
        f'<tr><td><a href="{escape(links.investigation(case.id))}" target="_self">{escape(case.title)}</a></td>'
        f"<td>{escape(words(case.state))}</td><td>{outcome}</td><td>{escape(when(case.opened_at))}</td></tr>"
    )
