"""What was found, in one sentence, with the facts a reader asks for first."""

from __future__ import annotations

import streamlit as st

from ui import links
from ui.case import stages
from ui.components import chips
from ui.components.markup import escape, steps, words
from ui.records import Case


def render(case: Case, said: str = "") -> str:
    """`said`: HTML of what people said about it."""
    investigation = case.investigation
    sentence = case.leading.statement if case.leading else investigation.title
    facts = []
    if case.leading:
        facts.append(chips.fact("began", steps(case.leading.onset)))
    if investigation.cause_kind:
        facts.append(chips.fact("cause", words(investigation.cause_kind)))
    if case.budget:
        used, limit = case.budget.cpu_s_used, case.budget.cpu_s
        facts.append(chips.fact("re-runs", f"{case.budget.reruns_used} of at most {case.budget.reruns}"))
        facts.append(chips.fact("cost", f"{used:.0f} of {limit:.0f} CPU s"))
    facts.append(f'<a href="{escape(links.ask(investigation_id=investigation.id))}" target="_self">Ask about it</a>')
    also = "".join(f"<li>{escape(anomaly.statement)}</li>" for anomaly in case.anomalies if anomaly is not case.leading)
    more = f'<ul class="lt-also">{also}</ul>' if also else ""
    return (
        f'<section class="lt-finding"><small>What Lathe found in {escape(case.its_run.name)}</small>'
        f'<h2>{escape(sentence)}</h2>{more}{cause(case)}<div class="lt-facts">{said}{"".join(facts)}</div>'
        f"{stages.render(case)}</section>"
    )


def cause(case: Case) -> str:
    """The verdict in its own words, never without its scope; nothing before there is one."""
    if case.verdict is None:
        return ""
    chip = chips.verdict(case.verdict.verdict, case.verdict.scope)
    return f'<p class="lt-cause">{chip}<span>{escape(case.verdict.statement)}</span></p>'


def show(case: Case, said: str) -> None:
    st.html(render(case, said))
