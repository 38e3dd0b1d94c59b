"""Evolution: what was changed in a scaffold, on which evidence it was kept, and what the sealed tasks say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from ui import links, session
from ui.catalog import Evolution, EvolutionRun
from ui.client import Client
from ui.components import chips, diff_view
from ui.components.markup import escape, percent, words
from ui.components.messages import errors_shown, show_empty
from ui.components.tables import row, table
from ui.evolving import canary_board, curves

LIVE_S = 5.0
_HEADS = ("Round", "Change", "Pairs", "Mean difference", "Detectable gain", "Wealth", "Needed", "Decision")


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
        rounds, splits, archive, memory, canaries = st.tabs(
            ["Rounds", "Curves", "Archive", "Memory", "Canaries and spend"]
        )
        with rounds:
            _show_rounds(whole)
        with splits:
            curves.show(whole)
        with archive:
            st.html(_tree(whole))
        with memory:
            st.html(_memory(whole))
        with canaries:
            canary_board.show(whole)
            st.html(_spending(whole))
        _show_wishes(client, whole)


def _facts(whole: Evolution) -> str:
    summary, sealed = whole.summary, whole.summary.get("sealed")
    verdict = "not opened" if sealed is None else (
        f"{sealed['says']}; opened by {sealed['opened_by']}, of {summary['seals_of_these_tasks']} runs that saw "
        "these tasks"
    )  # fmt: skip
    kept = f"{whole.run.kept} kept, {sum(map(_is_placebo, summary['kept']))} of them placebos"
    facts = (
        ("Rounds", f"{whole.run.rounds} of {whole.run.planned_rounds}, {kept}"),
        ("Sealed tasks", verdict),
        ("Chance of any false commit", f"at most {summary['run_alpha']:g}; {summary['alpha_left']:.4f} is left"),
        (
            "Looked for",
            f"gains of {percent(summary['effect_looked_for'])} of the tasks; smaller ones may have been missed",
        ),
        ("Before the gate", summary["screen_says"]),
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
    said = f"<p>{escape(each.get('hypothesis', each['why']))}</p><p>{escape(_evidence(each))}</p>"
    st.html(said + _critique(each))
    if each.get("diff"):
        st.html(diff_view.render(each["diff"]))


def decision(each: dict[str, Any]) -> str:
    """Kept or why not; a placebo that was kept is a false commit, and is marked."""
    if not each["kept"]:
        return escape(each["why"])
    return chips.tag("kept") + (" placebo: it changes nothing" if _is_placebo(each) else "")


def _is_placebo(each: dict[str, Any]) -> bool:
    return each.get("kind") == "placebo"


def _cells(each: dict[str, Any]) -> list[str]:
    moves = escape("; ".join(each["moves"]) or "nothing new")
    tested = bool(each["num_pairs"])
    gain = f"{each['detectable']:.2f} and more" if tested else "not tested in pairs"
    mean = f"{each['mean']:+.3f}" if tested else ""
    numbers = (str(each["num_pairs"]), mean, gain, f"{each['wealth']:.2f}", f"{1 / each['alpha']:.0f}")
    return [str(each["round"]), moves, *numbers, decision(each)]


def _evidence(each: dict[str, Any]) -> str:
    """What was decided on, with the gain that so many pairs would have shown."""
    if not each["num_pairs"]:
        return f"Not tested in pairs: {each['why']}."
    return (
        f"{'Kept' if each['kept'] else 'Not kept'}: {each['why']}; {each['mean']:+.3f} over {each['num_pairs']} pairs, "
        f"wealth {each['wealth']:.2f} of {1 / each['alpha']:.0f} needed; gains of {each['detectable']:.2f} "
        "of the tasks and more would be seen with power 0.9, smaller ones may be there."
    )


def _critique(each: dict[str, Any]) -> str:
    lines = "".join(
        f"<li>{escape(finding['sentence'])} <small>{escape(', '.join(finding['traces'][:4]))}</small></li>"
        for finding in each.get("critique", [])
    )
    return f"<ul>{lines}</ul>" if lines else ""


def leaf(each: dict[str, Any]) -> str:
    """A round in the archive."""
    text = f"round {each['round']} <code>{escape(each['candidate'][:10])}</code> {escape('; '.join(each['moves']))}"
    return f"<b>{text}</b>{' (kept placebo)' if _is_placebo(each) else ''}" if each["kept"] else text


def _tree(whole: Evolution) -> str:
    """Every candidate below the commit it was made from; kept ones are marked."""
    children: dict[str, list[dict[str, Any]]] = {}
    for each in whole.rounds:
        if each.get("candidate"):
            children.setdefault(each["parent"], []).append(each)

    def branch(commit: str) -> str:
        items = "".join(f"<li>{leaf(each)}{branch(each['candidate'])}</li>" for each in children.get(commit, []))
        return f"<ul>{items}</ul>" if items else ""

    root = str(whole.summary["root"])
    return f"<p>first scaffold <code>{escape(root[:10])}</code></p>{branch(root)}"


def _memory(whole: Evolution) -> str:
    lessons = "".join(f"<li>{escape(each)}</li>" for each in whole.memory.get("lessons", []))
    directions = "".join(f"<li>{escape(each)}</li>" for each in whole.memory.get("directions", []))
    return f"<h3>Lessons</h3><ul>{lessons}</ul><h3>Where to look next</h3><ul>{directions}</ul>"


def _spending(whole: Evolution) -> str:
    summary = whole.summary
    facts = {
        "Repeats of failed ideas (by the likeness that refuses them, so none by construction)": summary["repeats"],
        "Gate queries (pairs)": summary["gate_queries"],
        "Episodes": f"{summary['episodes']} of {summary['max_episodes']}",
        "Asks of the brain": summary["asks"],
        "Processor seconds": f"{float(whole.spent.get('cpu_s', 0.0)):.0f}",
    }
    refusals = summary["refusals"].items()
    facts |= {f"Refused: {reason}": count for reason, count in refusals}
    return table(("What", "How much"), [row([escape(name), escape(value)]) for name, value in facts.items()])


def _show_wishes(client: Client, whole: Evolution) -> None:
    """What a person may ask for; somebody with the role decides it."""
    if session.principal().role == "viewer":
        return
    case, summary = whole.run.case_id, whole.summary
    if summary["incumbent"] != summary["root"]:
        _show_wish("Propose to use the incumbent", "publish", f"promotion of {case}", lambda: client.promote(case))
    if summary["over"] and summary["sealed"] is None:
        _show_wish("Propose to open the sealed tasks", "lock_open", f"seal of {case}", lambda: client.open_seal(case))


def _show_wish(label: str, icon: str, kept: str, ask: Callable[[], str]) -> None:
    if st.button(label, icon=f":material/{icon}:"):
        st.session_state[kept] = ask()  # the page draws itself anew every few seconds
    if kept in st.session_state:
        address = escape(links.proposal(st.session_state[kept]))
        st.html(f"<p>It waits for approval: <a href='{address}' target='_self'>decide it</a></p>")
