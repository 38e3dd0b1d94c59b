"""What happened afterwards: the same curve going on with the change, and whether it held."""

from __future__ import annotations

import streamlit as st

from ui.case import curve
from ui.client import Client
from ui.components.markup import escape
from ui.components.messages import show_empty, show_error
from ui.components.series_plot import figure
from ui.palette import Palette
from ui.records import Case, Effect
from ui.transport import ApiError

LEAD_STEPS = 60  # shown before the onset
_VERIFY = ".verify"


def show(client: Client, case: Case, colours: Palette) -> None:
    """Nothing before the change was approved."""
    if not any(proposal.state == "approved" for proposal in case.proposals):
        return
    st.html("<h3>What happened afterwards</h3>")
    effect = next((effect for effect in reversed(case.effects) if effect.changes_a_run), None)
    if effect is None or effect.state in ("requested", "running"):
        show_empty("The change is approved and is being carried out", "The curve above goes on by itself.")
        return
    if effect.state != "done":
        show_error(ApiError(f"The change was not carried out: {effect.message}", remedy=effect.remedy))
        return
    st.html(sentence(case, effect))
    _show_curve(client, case, colours)


def sentence(case: Case, effect: Effect) -> str:
    """What the loop said when it looked again, else that it is still looking."""
    said = [item.text for item in case.activity if str(item.detail.get("step", "")).endswith(_VERIFY)]
    text = said[-1] if said else "Lathe is checking whether the anomaly recedes and nothing else suffers."
    segment, last_step = effect.result.get("segment"), effect.result.get("last_step")
    where = f"The run went on as segment {segment}, so far to step {last_step}." if segment is not None else ""
    return f'<div class="lt-decided lt-approved"><b>{escape(text)}</b><p>{escape(where)}</p></div>'


def _show_curve(client: Client, case: Case, colours: Palette) -> None:
    if case.leading is None or not case.leading.series:
        return
    events = client.timeline(case.its_run.id)
    names = curve.names_around(client, case.its_run.id, curve.judged_series(case.leading))
    window = (max(0, case.leading.onset[0] - LEAD_STEPS), None)
    drawn = figure(curve.plot(client, case, case.its_run.id, names, events, window), colours)
    drawn.update_layout(dragmode=False, height=300)
    st.html(f"<div class='lt-title'><span></span><div>{curve.legend(names, faulty=True, fixed=True)}</div></div>")
    st.plotly_chart(
        drawn,
        key=f"aftermath:{case.investigation.id}",
        config={"displayModeBar": False},
        alt="the same curve going on with the change",
    )
