"""Memory: what was tried and did not work, so that nobody tries it again without knowing; and adding to it by hand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

import streamlit as st

from ui import links, session
from ui.case import memory as cards
from ui.catalog import Hit
from ui.client import Client
from ui.components import chips
from ui.components.markup import escape, words
from ui.components.messages import show_empty, show_error
from ui.records import Negative
from ui.transport import ApiError

_ALL = "all reasons"
_EVERYTHING = "Everything on record"
_PLACES = ("Negative results", _EVERYTHING)
_KINDS = ("negative", "investigation", "anomaly", "change", "hunk", "note")
MAX_BODY = 400
_FIELDS = ("claim", "intervention", "expected", "observed", "reason", "reopen_if")
_LABELS = {
    "claim": "Claim: what was believed",
    "intervention": "What was tried",
    "observed": "What was seen",
    "reason": "Why it does not hold",
    "evidence": "Evidence, one reference a line (run:ID, series:RUN/NAME#10..20, commit:HASH)",
    "reopen_if": "Look again if",
}


def page() -> None:
    st.html(
        "<h1 class='lt-page'>Memory</h1>"
        "<p class='lt-lead'>What was ruled out, on which evidence, what would reopen it; and a search in everything "
        "that is on record.</p>"
    )
    question = st.text_input("Search", value=st.query_params.get("q", ""), placeholder="router learning rate")
    where = st.segmented_control(
        "Where", _PLACES, default=_PLACES[0], required=True, label_visibility="collapsed", key="memory:where"
    )
    if where == _EVERYTHING:
        _show_everything(session.client(), question)
        return
    found = session.client().negatives(question)
    if not found:
        _show_nothing(question)
    else:
        _show_found(found)
    if session.principal().role != "viewer":
        _show_form()


def _show_everything(client: Client, question: str) -> None:
    """By words and by meaning, with filters."""
    left, right = st.columns([3, 1])
    kinds = left.pills("Kinds; none chosen means all", _KINDS, selection_mode="multi")
    projects = [project.id for project in client.projects()]
    project = right.selectbox("Project", projects, index=None, placeholder="all projects")
    if not question.strip():
        show_empty("Search in everything", "Cases, changes, commits, notes and lessons: by words and by meaning.")
        return
    hits = client.search(question, kinds=kinds, project=project)
    if not hits:
        show_empty(f"Nothing on record is like “{question}”", "Take a filter away, or use other words.")
        return
    st.html('<div class="lt-cards">' + "".join(_hit(hit) for hit in hits) + "</div>")


def _hit(hit: Hit) -> str:
    label, address = links.evidence(hit.reference)
    body = hit.body if len(hit.body) <= MAX_BODY else hit.body[:MAX_BODY] + " …"
    outcome = chips.tag(hit.outcome) if hit.outcome else ""
    return (
        f'<div class="lt-card">{chips.tag(hit.kind)} {outcome}<div><a href="{escape(address)}" target="_self"><b>'
        f"{escape(hit.title)}</b></a></div><p>{escape(body)}</p><small>{escape(label)}</small></div>"
    )


def _show_nothing(question: str) -> None:
    if question:
        show_empty(f"Nothing is stored about “{question}”", "That it is not here does not mean that it was not tried.")
    else:
        show_empty("Nothing was ruled out yet", "Every closed case leaves its exclusions here; `lathe demo` shows one.")


def _show_found(found: tuple[Negative, ...]) -> None:
    reasons = sorted({negative.reason_class for negative in found})
    # a select box, whose options are plain text: people write these words, and a pill would read them as Markdown
    chosen = st.selectbox("Why", [_ALL, *reasons], format_func=words, label_visibility="collapsed", width=320)
    shown = [negative for negative in found if chosen in (_ALL, negative.reason_class)]
    st.html('<div class="lt-cards">' + "".join(cards.card(negative) for negative in shown) + "</div>")
    st.download_button(
        "Download these as CSV",
        as_csv(shown),
        file_name="negative_results.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


def as_csv(negatives: Sequence[Negative]) -> str:
    """A line a record, whole: `context` as JSON, evidence as references with blanks between."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", *_FIELDS, "reason_class", "context", "evidence", "investigation_id", "actor"])
    for negative in negatives:
        fields = [getattr(negative, name) for name in _FIELDS]
        context = json.dumps(negative.context, sort_keys=True)
        rest = [" ".join(negative.evidence), negative.investigation_id or "", negative.actor]
        writer.writerow([negative.id, *fields, negative.reason_class, context, *rest])
    return out.getvalue()


def _show_form() -> None:
    if not st.toggle("Add one by hand"):  # an expander would close over the answer to what was sent
        return
    with st.form("negative", enter_to_submit=False):
        values = {name: st.text_area(label, height=68, key=f"negative:{name}") for name, label in _LABELS.items()}
        if not st.form_submit_button("Store it", type="primary"):
            return
        evidence = [line.strip() for line in values.pop("evidence").splitlines() if line.strip()]
        try:
            session.client().add_negative(evidence=evidence, **values)
        except ApiError as error:
            show_error(error)
        else:
            st.success("Stored. It will be found before anybody tries this again.", icon=":material/check:")
