"""Potential: what a run's checkpoints become after the same light SFT, beside what they score today."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui import links, palette, session
from ui.client import Client
from ui.components import chips, potential_plot, raw_outputs
from ui.components.markup import escape, words
from ui.components.messages import errors_shown, show_empty
from ui.components.tables import row, table
from ui.potential import Best, Potential, Reading
from ui.views import decisions

LIVE_S = 5.0
_BEST = ("Step", "Best protocol", "Corrected", "95 % interval", "Largest mean", "Correction")
_BY_TASK = ("Task, last checkpoint", *_BEST[1:])


def page() -> None:
    client = session.client()
    st.html(
        "<h1 class='lt-page'>Potential</h1><p class='lt-lead'>What checkpoints become after one light SFT that is the "
        "same for all of them, beside what they score today.</p>"
    )
    runs, decided = st.tabs(["Runs", "Decisions"])
    with runs, errors_shown():
        _show_runs(client)
    with decided, errors_shown():
        decisions.show()


def _show_runs(client: Client) -> None:
    cases = {case.id: case for case in client.potentials()}
    if not cases:
        show_empty("No run was measured yet", "`lathe potential RUN` tunes and scores a run's checkpoints.")
        return
    wanted = st.query_params.get("case")
    chosen = st.selectbox(
        "Run", list(cases), index=list(cases).index(wanted) if wanted in cases else 0,
        format_func=lambda case_id: f"{cases[case_id].run_id}: {cases[case_id].title}",
    )  # fmt: skip
    st.query_params["case"] = chosen
    every = LIVE_S if cases[chosen].state != "closed" else None
    st.fragment(_draw, run_every=every)(client, chosen)


def _draw(client: Client, case_id: str) -> None:
    with errors_shown():
        found = client.potential(case_id)
        st.html(_head(found))
        if found.reading is None:
            show_empty(
                f"{found.measured} of {found.pieces} pieces are measured",
                "A verdict needs two checkpoints with all of their seeds. A worker goes on: `lathe up` starts one.",
            )
            return
        _show(client, case_id, found.reading)


def _head(found: Potential) -> str:
    case = found.case
    outcome = chips.verdict(case.verdict, case.scope) if case.verdict else chips.state(case.state)
    address = escape(links.investigation(case.id))
    progress = chips.fact("pieces", f"{found.measured} of {found.pieces}")
    return f'<div class="lt-facts">{outcome}{progress}<a href="{address}" target="_self">Open the case</a></div>'


def _show(client: Client, case_id: str, found: Reading) -> None:
    verdict, colours = found.verdict, palette.current()
    st.html(
        f"<section><h2>{escape(words(verdict.verdict)).capitalize()}</h2><p>{escape(verdict.sentence)}.</p>"
        f"<p class='lt-muted'>{verdict.num_checkpoints} checkpoints, {verdict.num_seeds} seeds; a wrong label has a "
        f"chance below {200 * verdict.error_rate:.1f} %; {verdict.detectable:.1f} points after SFT would be seen. "
        "Compare trends of the two curves, not levels.</p></section>"
    )
    over, protocols, ranks, learning, raw = st.tabs(
        ["Over tokens", "Protocols", "Ranks", "Learnability", "Raw outputs"]
    )
    with over:
        _plot(potential_plot.curves(found, colours), "curves", "base and tuned score over tokens")
    with protocols:
        _show_protocols(found, colours)
    with ranks:
        _plot(potential_plot.slopes(found.ranks.rows, colours), "ranks", "rank of each checkpoint before and after SFT")
        st.html(f"<p>{escape(_agreement(found))}</p>")
    with learning:
        _show_learning(found, colours)
    with raw, errors_shown():
        _show_raw(client, case_id, found)


def _plot(chart: Any, key: str, told: str) -> None:
    st.plotly_chart(chart, key=f"potential:{key}", config={"displayModeBar": False}, alt=told)


def _show_protocols(found: Reading, colours: palette.Palette) -> None:
    after = st.segmented_control("Of", ["base", "after SFT"], default="base") == "after SFT"
    best = found.maximum_sft if after else found.maximum
    _plot(potential_plot.fan(best, found.tokens, colours), "fan", "score under each protocol over tokens")
    st.html(table(_BEST, [_best(str(step), each) for step, each in best.items()]))
    by_task = found.maximum_by_task_sft if after else found.maximum_by_task
    if by_task:
        st.html(table(_BY_TASK, [_best(task, each) for task, each in list(by_task.values())[-1].items()]))
    turned = found.protocol_rank_changes_sft if after else found.protocol_rank_changes
    pairs = "; ".join(f"{one} and {other}" for one, other in turned) or "none beyond noise"
    st.html(f"<p>Order turned between the first and the last checkpoint: {escape(pairs)}.</p>")
    told = list(dict.fromkeys(line for lines in found.findings.values() for line in lines))
    if told:
        st.html("<h3>Protocols that disagree</h3><ul>" + "".join(f"<li>{escape(each)}</li>" for each in told) + "</ul>")


def _best(what: str, each: Best) -> str:
    interval = f"{each.low:.1f} to {each.high:.1f}"
    cells = [escape(what), escape(each.protocol), f"{each.value:.1f}", interval, f"{each.naive:.1f}"]
    return row([*cells, f"{each.correction:+.1f}"])


def _agreement(found: Reading) -> str:
    rho = found.ranks.spearman
    if rho is None:
        return f"No Spearman rho: {found.ranks.refusal}."
    return f"Spearman rho {rho.rho:.2f} ({rho.low:.2f} to {rho.high:.2f})."


def _show_learning(found: Reading, colours: palette.Palette) -> None:
    steps = list(found.learnability)
    ends = {step: found.learnability[step] for step in dict.fromkeys([steps[0], steps[-1]])}
    _plot(potential_plot.learning(ends, colours), "learning", "score over SFT steps with fits and bands")
    ratio = found.saving.ratio
    if ratio is None:
        told = f"No data-saving ratio: {found.saving.refusal}."
    else:
        low, high = ("unbounded" if end is None else f"{end:.2g}" for end in (ratio.low, ratio.high))
        told = (
            f"The last checkpoint needs {ratio.value:.2g} times less SFT data than the first for "
            f"{found.saving.target:.1f} points ({low} to {high})."
        )
    crossing = f" {found.crossing.sentence}." if found.crossing else ""
    st.html(f"<p>{escape(told + crossing)}</p><p class='lt-muted'>{escape(words(found.learnability_is))}</p>")


def _show_raw(client: Client, case_id: str, found: Reading) -> None:
    """Every number of the reading."""
    names = {f"step {step}, base": raw for step, raw in zip(found.steps, found.base_raw, strict=True)}
    for step, files in zip(found.steps, found.sft_raw, strict=True):
        names |= {f"step {step}, SFT seed {seed}": raw for seed, raw in zip(found.seeds, files, strict=True)}
    for kind, best_by in (("base", found.maximum), ("SFT", found.maximum_sft)):
        for step, best in best_by.items():
            names |= {f"step {step}, {kind} by {name}": raw for name, raw in best.raw.items()}
    for step, files_by in zip(found.steps, found.bits_raw, strict=False):
        names |= {f"step {step}, {words(text)}": raw for text, raw in files_by.items()}
    for step, by_seed in found.marks_raw.items():
        budgets = found.learnability[step].budgets
        for seed, files in zip(found.seeds, by_seed, strict=True):
            told = [f"step {step}, SFT seed {seed} after {budget:g} steps" for budget in budgets]
            names |= dict(zip(told, files, strict=True))
    raw_outputs.show(client, case_id, names)
