"""Today: is everything well, the curve that matters, what needs you, what is being done, what was found lately."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import streamlit as st

from ui import links, session
from ui.case import also_running, headline, picture, triage
from ui.catalog import Mark
from ui.client import Client
from ui.components import ask_box, budget_bars, chips, feed
from ui.components.markup import escape, when, words
from ui.components.messages import errors_shown, show_empty
from ui.components.series_plot import marks, show_changes
from ui.components.tables import table
from ui.records import Case, Health, Investigation, Run
from ui.views import investigation

LIVE_S = 3.0
CURVE_HEIGHT = 320  # so that what was found is seen without scrolling
LATELY = timedelta(hours=24)
MAX_FINDINGS = 6
MAX_CASES = 20
_CLOSED = "closed"


def page() -> None:
    if wanted := st.query_params.get("investigation"):
        investigation.page(wanted)
        return
    client, health = session.client(), session.health()
    headline.show(client, health)  # first: it is what a person looks for
    ask_box.show(client)
    investigations = client.investigations()
    case = _case(client, health, investigations)
    run = _run(client, health, case)
    if run is None:
        show_empty(
            "No training has been recorded yet",
            "Run `lathe demo` to watch Lathe find, prove and fix a fault in a real training, "
            "or `lathe train` to start your own.",
        )
        return
    left, right = st.columns([2.6, 1], gap="medium")
    with left:
        picture.show_curve(client, run, case, height=CURVE_HEIGHT)
        also_running.show(client, [each for each in health.running if each.id != run.id])
        _show_findings(client, investigations)
    with right:
        show_changes(marks(client.timeline(run.id)))
        st.fragment(feed.show, run_every=LIVE_S)(client, None)
        _show_budgets(client)


def _case(client: Client, health: Health, found: tuple[Investigation, ...]) -> Case | None:
    """The newest case that is open and that people want to hear of, else the newest of the last day."""
    heard = [case for case in found if case.run_id and case.id not in health.quiet_cases]
    still_open = [case for case in heard if case.state != _CLOSED]
    lately = [case for case in heard if _is_late(case)]
    newest = max(still_open or lately, key=lambda case: case.opened_at, default=None)
    return client.investigation(newest.id) if newest else None


def _run(client: Client, health: Health, case: Case | None) -> Run | None:
    """The run whose curve matters: that of the case, else a running one, else the newest training."""
    if case is not None:
        return case.run
    trainings = health.running or client.runs(role="training", limit=1)
    return trainings[0] if trainings else None


def _is_late(case: Investigation) -> bool:
    return datetime.now(tz=UTC) - case.opened_at < LATELY


def _show_findings(client: Client, found: tuple[Investigation, ...]) -> None:
    """Those of the last day and those that are open, each in a sentence; without any, the newest."""
    chosen = [case for case in found if case.state != _CLOSED or _is_late(case)] or list(found[:1])
    st.html("<h3>Found since yesterday</h3>" if any(map(_is_late, chosen)) else "<h3>Found last</h3>")
    if not chosen:
        show_empty("Nothing was found", "`lathe schedule watch` looks at every training as it arrives.")
        return
    with errors_shown():
        said = client.marks([f"investigation:{case.id}" for case in chosen[:MAX_FINDINGS]])
        for case in chosen[:MAX_FINDINGS]:
            _show_finding(case, said.get(f"investigation:{case.id}"))
    _show_more(chosen[MAX_FINDINGS:], "more that are open or were found since yesterday")
    _show_more([case for case in found if case not in chosen], "earlier cases")


def _show_more(cases: list[Investigation], what: str) -> None:
    if not cases:
        return
    with st.expander(f"{len(cases)} {what}"):
        st.html(table(("Case", "State", "Verdict", "Opened"), [_row(case) for case in cases[:MAX_CASES]]))


def _show_finding(case: Investigation, mark: Mark | None) -> None:
    outcome = chips.verdict(case.verdict, case.scope) if case.verdict else chips.state(case.state)
    sentence = f"<p>{escape(case.statement)}</p>" if case.statement else ""
    with st.container(border=True):
        text, act = st.columns([4, 1.5])
        text.html(
            f'<div class="lt-found"><a href="{escape(links.investigation(case.id))}" target="_self"><b>'
            f"{escape(case.title)}</b></a>{sentence}<div class='lt-facts'>{outcome}{triage.chip(mark)}"
            f"<span class='lt-muted'>{escape(when(case.opened_at))}</span></div></div>"
        )
        with act:
            triage.show(f"investigation:{case.id}", mark)


def _row(case: Investigation) -> str:
    outcome = chips.verdict(case.verdict, case.scope) if case.verdict else ""
    return (
        f'<tr><td><a href="{escape(links.investigation(case.id))}" target="_self">{escape(case.title)}</a></td>'
        f"<td>{escape(words(case.state))}</td><td>{outcome}</td><td>{escape(when(case.opened_at))}</td></tr>"
    )


def _show_budgets(client: Client) -> None:
    """What is open now; all of them are on the system page."""
    with errors_shown():
        in_use = [budget for budget in client.budgets() if not budget.closed]
        st.html(
            '<section class="lt-side"><h4>Budget used</h4>'
            + (budget_bars.brief(in_use) if in_use else "<p class='lt-muted'>Nothing is being spent.</p>")
            + '<p><a href="/system" target="_self">All budgets and limits</a></p></section>'
        )
