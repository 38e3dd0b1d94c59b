"""One text at a time: what is it? By buttons or by the keys 1 and 2; nobody else's label is shown before."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.classified import Agreement, Classifier, Interval, NextQuestion, Question
from ui.components.markup import as_label, escape
from ui.components.messages import errors_shown, show_empty, show_error
from ui.components.tables import row, table
from ui.transport import ApiError

_ERROR = "label-error"
_HEADS = ("Labellers", "Texts both labelled", "Agree (95 %)", "Kappa (95 %)")


def show(classifier: Classifier, agreements: tuple[Agreement, ...]) -> None:
    st.fragment(_ask)(classifier)
    if agreements:
        st.html("<h3>How far labellers agree</h3>" + table(_HEADS, [_pair(each) for each in agreements]))


def _ask(classifier: Classifier) -> None:
    with errors_shown():
        found = session.client().next_question(classifier.case_id)
        st.html(_progress(found))
        if error := st.session_state.pop(_ERROR, None):
            show_error(error)
        if found.question is None:
            show_empty("Nothing waits for your label", "The loop goes on by itself; its versions are beside.")
            return
        text = st.container()
        _buttons(classifier, found.question)
        text.html(_text(found.question))  # last: whoever sees it has its own buttons


def _buttons(classifier: Classifier, question: Question) -> None:
    """Their keys name the question, so that a late click never says something of the next one."""
    if session.principal().role == "viewer":
        show_empty("You can read this, but not label it", "Labelling needs the role researcher.")
        return
    st.html(f"<p class='lt-lead'>{escape(classifier.need)}</p>")
    places = st.columns([1, 1, 3])
    for number, (place, name) in enumerate(zip(places, classifier.classes, strict=False), start=1):
        place.button(
            as_label(name), key=f"label:{question.batch}:{question.item}:{number}", shortcut=str(number),
            type="primary" if number == 1 else "secondary", width="stretch", on_click=_say,
            args=(classifier.case_id, question, name),
        )  # fmt: skip


def _say(case_id: str, question: Question, label: str) -> None:
    """Runs with the question as it was on the screen."""
    try:
        session.client().label(case_id, question.batch, question.item, label)
    except ApiError as error:
        st.session_state[_ERROR] = error


def _progress(found: NextQuestion) -> str:
    progress = found.progress
    done = progress.asked - progress.waiting
    share = done / progress.asked if progress.asked else 1.0
    said = f"<b>{done} of {progress.asked}</b> labelled, {progress.mine} by you"
    return (
        f'<div class="lt-used lt-labelled"><span>{said}</span>'
        f'<div class="lt-bar"><i style="width:{100 * share:.0f}%"></i></div></div>'
    )


def _text(question: Question) -> str:
    facts = "".join(f"<span><small>{escape(k)}</small> {escape(v)}</span>" for k, v in question.slices.items())
    return f'<div class="lt-card lt-text">{escape(question.text)}</div><div class="lt-facts">{facts}</div>'


def _pair(each: Agreement) -> str:
    names = f"{escape(each.first)} and {escape(each.second)}"
    return row([names, str(each.num_texts), interval(each.share), interval(each.kappa)])


def interval(score: Interval | None) -> str:
    """For instance `0.912 (0.880 to 0.940)`; a dash where there is none."""
    if score is None or score.value is None:
        return "–"
    if score.low is None or score.high is None:
        return f"{score.value:.3f}"
    return f"{score.value:.3f} ({score.low:.3f} to {score.high:.3f})"
