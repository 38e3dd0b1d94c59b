"""An answer of the chat: statements with what they rest on, and cards that open the objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import streamlit as st

from ui import links, palette
from ui.client import Client
from ui.components import chips, units
from ui.components.markup import escape
from ui.components.messages import errors_shown, show_empty, show_error
from ui.components.series_plot import BUCKETS, Line, Mark, Plot, figure
from ui.conversation import Answer, Card
from ui.transport import ApiError

_RULES = "rules"
_PLOT_HEIGHT = 240


def draft(text: str) -> str:
    """Words of a model as they come, for Markdown that can hold neither pictures nor links."""
    return text.replace("[", "&#91;")


def render(answer: Answer) -> str:
    """HTML of everything but the cards."""
    said = "".join(
        f"<li>{escape(statement.text)} {chips.evidence(statement.evidence)}</li>" for statement in answer.statements
    )
    gap = f"<p>The store does not know: {escape(answer.gap)}.</p>" if not answer.statements else ""
    notes = [*answer.notes]
    if answer.removed:
        notes.append(f"{answer.removed} of {answer.claimed} statements were taken out: nothing on record says so")
    who = "answered by rules, without a model" if answer.brain == _RULES else f"answered by {answer.brain}, checked"
    small = " · ".join(escape(note) for note in (who, *notes))
    return f'<div class="lt-answer"><ul>{said}</ul>{gap}<p class="lt-muted">{small}</p></div>'


def show_cards(client: Client, answer: Answer, *, key: str, may_act: bool) -> None:
    """Each card with what it opens; a run can be looked into from here."""
    for index, card in enumerate(answer.cards):
        with st.container(border=True):
            if card.kind == "series":
                _show_series(client, card, key=f"{key}:{index}")
                continue
            st.html(_card(card))
            if card.kind == "run" and may_act:
                _show_investigate(client, str(card.detail.get("id", "")), key=f"{key}:{index}")


def _card(card: Card) -> str:
    target = str(card.detail.get("id", ""))
    address, words = {
        "case": (links.investigation(target), "Open the case"),
        "proposal": (links.proposal(target), "Read and decide the proposal"),
        "run": (links.run(target), "Open the run"),
    }.get(card.kind, ("", ""))
    state = chips.state(str(card.detail["state"])) if card.detail.get("state") else ""
    link = f'<a href="{escape(address)}" target="_self">{words}</a>' if address else ""
    return f"<b>{escape(card.title)}</b> {state}<p>{link}</p>"


def _show_series(client: Client, card: Card, *, key: str) -> None:
    """The curve that the answer speaks of, with the changes it names."""
    detail = card.detail
    run_id, name = str(detail["run_id"]), str(detail["name"])
    lo, hi = detail.get("lo"), detail.get("hi")
    address = links.run(run_id, series=name, lo=str(lo or ""), hi=str(hi or ""))
    with errors_shown():
        found = client.points(run_id, (name,), buckets=BUCKETS, lo=lo, hi=hi)
        lines = tuple(Line(label=units.short(series.name), series=series) for series in found)
        onset, marked = detail.get("onset"), tuple(_marks(detail.get("markers") or ()))
        plot = Plot(
            lines=lines,
            y_title=units.axis_title(name),
            marks=marked,
            onset=(int(onset[0]), int(onset[1])) if onset else None,
            height=_PLOT_HEIGHT,
        )
        st.html(f'<b>{escape(card.title)}</b> <a href="{escape(address)}" target="_self">Open the run</a>')
        drawn = figure(plot, palette.current()).update_layout(dragmode=False)
        st.plotly_chart(drawn, key=key, config={"displayModeBar": False}, alt=card.title)
        st.html("".join(_meaning(mark) for mark in marked))


def _marks(markers: Sequence[Mapping[str, object]]) -> Iterator[Mark]:
    """Changes of one step share a letter, as on the page of the run."""
    by_step: dict[int, list[str]] = {}
    for marker in markers:
        by_step.setdefault(int(str(marker["step"])), []).append(str(marker["title"]))
    for index, (step, titles) in enumerate(sorted(by_step.items())):
        yield Mark(letter=chr(ord("A") + index % 26), step=step, kind="change", titles=tuple(titles))


def _meaning(mark: Mark) -> str:
    return f"<p class='lt-muted'><b>{mark.letter}</b>, step {mark.step}: {escape('; '.join(mark.titles))}</p>"


def _show_investigate(client: Client, run_id: str, *, key: str) -> None:
    if not st.button("Start an investigation of it", key=f"investigate:{key}", icon=":material/troubleshoot:"):
        return
    try:
        opened = client.investigate(run_id)
    except ApiError as error:
        show_error(error)
        return
    if opened.investigation is None:
        show_empty("No case was opened", opened.sentence)
    else:
        address = escape(links.investigation(opened.investigation.id))
        st.html(f'<p>{escape(opened.sentence)} <a href="{address}" target="_self">Open the case</a></p>')
