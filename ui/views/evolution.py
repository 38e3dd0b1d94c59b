"""Evolution: what was changed in a scaffold, on which evidence it was kept, and what the sealed tasks say."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import streamlit as st

from ui import links, palette, session
from ui.catalog import Evolution, EvolutionRun
from ui.client import Client
from ui.components import chips, diff_view
from ui.components.markup import escape, percent, words
from ui.components.messages import errors_shown, show_empty
from ui.components.tables import row, table

LIVE_S = 5.0
_HEADS = ("Round", "Change", "Pairs", "Mean difference", "Wealth", "Needed", "Decision")


def page() -> None:
    client = session.client()
    st.html(
        "<h1 class='lt-page'>Evolution</h1><p class='lt-lead'>A scaffold is changed round by round; what is kept was "
        "better in pairs, within an error budget of the whole run.</p>"
    )
    found = {run.case_id: run for run in client.evolution_runs()}
    if not found:
        show_empty("No scaffold has been evolved yet", "`lathe evolve run default` begins a run, without any model.")
        return
    wanted = st.query_params.get("case")
    names = list(found)
    chosen = st.selectbox(
        "Run", names, index=names.index(wanted) if wanted in names else 0,
        format_func=lambda case: f"{found[case].title}: {found[case].rounds} of {found[case].planned_rounds} rounds",
    )  # fmt: skip
    st.query_params["case"] = chosen
    every = LIVE_S if found[chosen].state == "open" else None
    st.fragment(_draw, run_every=every)(client, found[chosen])


def _draw(client: Client, run: EvolutionRun) -> None:
    with errors_shown():
        whole = client.evolution(run.case_id)
        st.html(_facts(whole))
        rounds, curves, archive, memory, canaries = st.tabs(
            ["Rounds", "Curves", "Archive", "Memory", "Canaries and spend"]
        )
        with rounds:
            _show_rounds(whole)
        with curves:
            _show_curves(whole)
        with archive:
            st.html(_tree(whole))
        with memory:
            st.html(_memory(whole))
        with canaries:
            st.html(_canaries(whole))
        _show_promotion(client, whole)


def _facts(whole: Evolution) -> str:
    summary, sealed = whole.summary, whole.summary.get("sealed")
    verdict = "not opened" if sealed is None else (
        f"{sealed['first']:.3f} → {sealed['last']:.3f}, {sealed['difference']:+.3f} "
        f"(95 % {sealed['low']:+.3f} to {sealed['high']:+.3f}), opened by {sealed['opened_by']}"
    )  # fmt: skip
    facts = (
        ("Rounds", f"{whole.run.rounds} of {whole.run.planned_rounds}, {whole.run.kept} kept"),
        ("Sealed tasks", verdict),
        ("Chance of any false commit", f"at most {summary['run_alpha']:g}; {summary['alpha_left']:.4f} is left"),
        (
            "Looked for",
            f"gains of {percent(summary['effect_looked_for'])} of the tasks; smaller ones may have been missed",
        ),
        (
            "Placebo rounds",
            f"{summary['placebo_at_gate']} of {summary['placebo_rounds']} reached the gate, "
            f"{summary['placebo_accepted']} were accepted (95 % bound {summary['placebo_rate_high95']:.2f})",
        ),
    )
    rows = "".join(f"<dt>{label}</dt><dd>{escape(text)}</dd>" for label, text in facts)
    return f"<section><h2>{escape(whole.run.title)} {chips.tag(words(whole.run.state))}</h2><dl>{rows}</dl></section>"


def _show_rounds(whole: Evolution) -> None:
    st.html(table(_HEADS, [row(_cells(each)) for each in reversed(whole.rounds)]))
    kept = [each["round"] for each in whole.rounds if each["kept"]]
    numbers = [each["round"] for each in whole.rounds]
    if not numbers:
        return
    number = st.selectbox("Evidence and diff of round", numbers, index=numbers.index(kept[-1]) if kept else 0)
    each = whole.rounds[numbers.index(number)]
    st.html(f"<p>{escape(each.get('hypothesis', each['why']))}</p>" + _critique(each))
    if each.get("diff"):
        st.html(diff_view.render(each["diff"]))


def _cells(each: dict[str, Any]) -> list[str]:
    decision = chips.tag("kept") if each["kept"] else escape(each["why"])
    moves = escape("; ".join(each["moves"]) or "nothing new")
    numbers = (str(each["num_pairs"]), f"{each['mean']:+.3f}", f"{each['wealth']:.2f}", f"{1 / each['alpha']:.0f}")
    return [str(each["round"]), moves, *numbers, decision]


def _critique(each: dict[str, Any]) -> str:
    lines = "".join(
        f"<li>{escape(finding['sentence'])} <small>{escape(', '.join(finding['traces'][:4]))}</small></li>"
        for finding in each.get("critique", [])
    )
    return f"<ul>{lines}</ul>" if lines else ""


def _show_curves(whole: Evolution) -> None:
    """Three kinds of tasks, never on one axis: what may be looked at, what only decides, what was sealed."""
    colours = palette.current()
    fix = {node["commit"]: node["passed"] / max(1, node["episodes"]) for node in whole.nodes}
    line, best = [], fix.get(whole.summary["root"])
    for each in whole.rounds:
        best = fix.get(each["candidate"], best) if each["kept"] else best
        line.append((each["round"], best))
    tested = [each for each in whole.rounds if each["num_pairs"]]
    charts = (
        ("Fix tasks: the incumbent's share solved (traces visible, no evidence of a gain)", line, "fix"),
        ("Gate: mean difference of each candidate in pairs", [(r["round"], r["mean"]) for r in tested], "gate"),
    )
    for title, points, key in charts:
        chart = go.Figure(go.Scatter(x=[x for x, _ in points], y=[y for _, y in points], mode="lines+markers"))
        chart.update_layout(
            title=title, height=260, margin={"l": 40, "r": 10, "t": 40, "b": 30}, paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)", font={"color": colours.ink}, xaxis_title="round",
        )  # fmt: skip
        st.plotly_chart(chart, key=f"evolution:{key}")
    sealed = whole.summary.get("sealed")
    st.html(
        "<p>Sealed tasks: not opened.</p>" if sealed is None
        else f"<p>Sealed tasks: {sealed['first']:.3f} before, {sealed['last']:.3f} after.</p>"
    )  # fmt: skip


def _tree(whole: Evolution) -> str:
    """Every candidate below the commit it was made from; kept ones are marked."""
    children: dict[str, list[dict[str, Any]]] = {}
    for each in whole.rounds:
        if each.get("candidate"):
            children.setdefault(each["parent"], []).append(each)

    def branch(commit: str) -> str:
        items = "".join(
            f"<li>{'<b>' if each['kept'] else ''}round {each['round']} <code>{escape(each['candidate'][:10])}</code> "
            f"{escape('; '.join(each['moves']))}{'</b>' if each['kept'] else ''}{branch(each['candidate'])}</li>"
            for each in children.get(commit, [])
        )
        return f"<ul>{items}</ul>" if items else ""

    root = str(whole.summary["root"])
    return f"<p>first scaffold <code>{escape(root[:10])}</code></p>{branch(root)}"


def _memory(whole: Evolution) -> str:
    lessons = "".join(f"<li>{escape(each)}</li>" for each in whole.memory.get("lessons", []))
    directions = "".join(f"<li>{escape(each)}</li>" for each in whole.memory.get("directions", []))
    return f"<h3>Lessons</h3><ul>{lessons}</ul><h3>Where to look next</h3><ul>{directions}</ul>"


def _canaries(whole: Evolution) -> str:
    summary = whole.summary
    seen = [each["seen"] for each in summary["control"]]
    facts = {
        "Canary hits": summary["canary_hits"],
        "Repeats of failed ideas": summary["repeats"],
        "Positive control seen": f"{sum(seen)} of {len(seen)}",
        "Gate queries (pairs)": summary["gate_queries"],
        "Episodes": f"{summary['episodes']} of {summary['max_episodes']}",
        "Asks of the brain": summary["asks"],
        "Processor seconds": f"{float(whole.spent.get('cpu_s', 0.0)):.0f}",
    }
    refusals = summary["refusals"].items()
    facts |= {f"Refused: {reason}": count for reason, count in refusals}
    return table(("What", "How much"), [row([escape(name), escape(value)]) for name, value in facts.items()])


def _show_promotion(client: Client, whole: Evolution) -> None:
    if whole.summary["incumbent"] == whole.summary["root"] or session.principal().role == "viewer":
        return
    kept = f"promotion of {whole.run.case_id}"  # the page draws itself anew every few seconds
    if st.button("Propose to use the incumbent", icon=":material/publish:"):
        st.session_state[kept] = client.promote(whole.run.case_id)
    if kept in st.session_state:
        address = escape(links.proposal(st.session_state[kept]))
        st.html(f"<p>It waits for approval: <a href='{address}' target='_self'>decide it</a></p>")
