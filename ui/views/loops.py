"""Loops: what each is for, how far it may go by itself, its scores against their gates, and its ledger by round."""

from __future__ import annotations

from itertools import groupby

import streamlit as st

from ui import links, palette, session
from ui.catalog import LedgerEntry, Loop
from ui.client import Client
from ui.components import chips, score_plot
from ui.components.markup import clock, escape, when, words
from ui.components.messages import errors_shown, show_empty
from ui.components.tables import row, table
from ui.records import Investigation
from ui.steering import autonomy

_HEADS = ("Round", "Step", "What it wrote down", "Rests on", "At")
MAX_CASES = 50
LIVE_S = 3.0


def page() -> None:
    client = session.client()
    st.html(
        "<h1 class='lt-page'>Loops</h1><p class='lt-lead'>A loop proposes, executes, measures and updates; what it may "
        "do by itself, a person sets.</p>"
    )
    found = {loop.name: loop for loop in client.loops()}
    if not found:
        show_empty("No loop is registered", "`lathe doctor` says what is missing.")
        return
    wanted = st.query_params.get("loop")
    names = list(found)
    if len(names) > 1:
        wanted = st.segmented_control("Loop", names, default=wanted if wanted in names else names[0])
    loop = found.get(wanted or "", found[names[0]])
    st.query_params["loop"] = loop.name
    st.html(_charter(loop))
    rounds, scores, by_itself = st.tabs(["Ledger by round", "Scores and gates", "Autonomy"])
    with rounds, errors_shown():
        _show_rounds(client, loop)
    with scores, errors_shown():
        score_plot.show(client.loop_scores(loop.name), palette.current(), key=loop.name)
    with by_itself, errors_shown():
        autonomy.show(client, session.principal(), client.policies(), loop=loop.name)


def _charter(loop: Loop) -> str:
    charter = loop.charter
    counted = [f"{number} {words(state)}" for state, number in loop.cases.items() if number]
    facts = (
        ("Cases", ", ".join(counted) or "none yet"),
        ("May by itself", loop.level),
        ("Broken link", f"{', '.join(charter.broken_links)}: {charter.why_broken}"),
        ("Closes instead at", charter.closes_at),
        ("Strength of its signal", words(charter.signal)),
    )
    rows = "".join(f"<dt>{label}</dt><dd>{escape(text)}</dd>" for label, text in facts)
    return f"<section><h2>{escape(loop.name)} {chips.tag(charter.loop_class)}</h2><dl>{rows}</dl></section>"


def _show_rounds(client: Client, loop: Loop) -> None:
    mine = [case for case in client.investigations() if case.loop == loop.name]
    cases = {case.id: case for case in mine[:MAX_CASES]}
    if not cases:
        show_empty(
            "This loop has not worked yet", "`lathe diagnose RUN` gives it a case; `lathe demo` shows a whole one."
        )
        return
    wanted = st.query_params.get("case")
    chosen = st.selectbox(
        "Case", list(cases), index=list(cases).index(wanted) if wanted in cases else 0,
        format_func=lambda case_id: f"{case_id}: {cases[case_id].title}",
    )  # fmt: skip
    st.query_params["case"] = chosen
    case = cases[chosen]
    every = LIVE_S if case.state != "closed" else None
    st.fragment(_draw_rounds, run_every=every)(client, loop.name, case)


def _draw_rounds(client: Client, name: str, case: Investigation) -> None:
    with errors_shown():
        entries = list(reversed(client.loop_ledger(name, case_id=case.id)))
        address = escape(links.investigation(case.id))
        outcome = chips.verdict(case.verdict, case.scope) if case.verdict else chips.state(case.state)
        st.html(
            f'<div class="lt-facts">{outcome}<a href="{address}" target="_self">Open the case</a>'
            f"<span class='lt-muted'>opened {escape(when(case.opened_at))}</span></div>"
        )
        if not entries:
            show_empty("It wrote nothing down about this case", "A worker drives open cases: `lathe up` starts one.")
            return
        st.html(table(_HEADS, rounds(entries), look="lt-rounds"))


def rounds(entries: list[LedgerEntry]) -> list[str]:
    """Rows of the ledger, oldest first; the number of a round stands once."""
    found: list[str] = []
    for number, group in groupby(entries, key=lambda entry: entry.round):
        for index, entry in enumerate(group):
            head = f"<b>{escape(number)}</b>" if index == 0 else ""
            text = str(entry.detail.get("text", ""))
            cells = [head, chips.tag(entry.action), escape(text), chips.evidence(entry.evidence)]
            found.append(row([*cells, escape(clock(entry.at))]))
    return found
