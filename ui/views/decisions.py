"""Decisions on recipes: continue, change or stop, always with both curves; a person approves them under Approvals."""

from __future__ import annotations

import streamlit as st

from ui import links, palette, session
from ui.components import chips, potential_plot, raw_outputs
from ui.components.markup import escape, words
from ui.components.messages import show_empty
from ui.components.tables import row, table
from ui.potential import Decision, DecisionRecord, Finalist

_FINALISTS = ("Recipe", "After SFT", "95 % interval", "Base", "Problems found", "Removed", "Carried over")
_CANDIDATES = ("Recipe", "Changes", "Why", "Rests on")


def show() -> None:
    """The newest decision, and earlier ones to choose from."""
    found = {each.case.id: each for each in session.client().decisions()}
    if not found:
        show_empty("No decision was prepared yet", "`lathe recipe RUN` tries changes of a run's recipe as pilots.")
        return
    chosen = st.selectbox(
        "Decision",
        list(found),
        format_func=lambda case_id: f"{found[case_id].case.run_id}: {found[case_id].case.title}",
    )
    _draw(found[chosen])


def _draw(found: Decision) -> None:
    record = found.record
    address = escape(links.investigation(found.case.id))
    states = "".join(chips.state(each.state) for each in found.proposals)
    st.html(
        f"<section><h2>{escape(words(record.choice)).capitalize()} {states}</h2><p>{escape(record.sentence)}.</p>"
        f"<p class='lt-muted'>{escape(record.scope)}.</p>"
        f'<div class="lt-facts"><a href="{address}" target="_self">Open the case</a></div></section>'
    )
    if record.curves is None:
        show_empty("Both curves are missing", f"`lathe potential {record.run_id}` measures them.")
    else:
        chart = potential_plot.curves(record.curves, palette.current())
        told = "base and tuned score of the run over tokens"
        st.plotly_chart(chart, key="decision:curves", config={"displayModeBar": False}, alt=told)
    st.html("<h3>Last rung</h3>" + table(_FINALISTS, [_finalist(each) for each in record.finalists]))
    rows = [
        row([
            escape(each.name), escape(", ".join(f"{key}={value}" for key, value in each.overrides.items()) or "none"),
            escape(each.why), chips.evidence(each.evidence),
        ])
        for each in record.candidates
    ]  # fmt: skip
    left_out = "".join(f"<li>left out: {escape(each)}</li>" for each in record.left_out)
    st.html("<h3>Why these were tried</h3>" + table(_CANDIDATES, rows) + f"<ul>{left_out}</ul>")
    if record.pilots:
        st.html("<h3>Raw outputs of the pilots</h3>")
        raw_outputs.show(session.client(), found.case.id, _raw(record))


def _raw(record: DecisionRecord) -> dict[str, str]:
    names: dict[str, str] = {}
    for each in record.pilots:
        told = f"rung {each.rung + 1}, {each.candidate}, seed {each.seed}"
        files = {"base": each.base_raw, "after SFT": each.tiny_raw} | each.bits_raw
        names |= {f"{told}, {words(kind)}": raw for kind, raw in files.items() if raw}
    return names


def _finalist(each: Finalist) -> str:
    interval = f"{each.difference.low:+.1f} to {each.difference.high:+.1f}"
    problems = (each.problems.found, each.problems.removed, each.problems.carried_over)
    told = [escape(", ".join(names) or "none") for names in problems]
    return row(
        [escape(each.name), f"{each.difference.mean:+.1f}", interval, f"{each.base_difference.mean:+.1f}", *told]
    )
