"""Where a version is wrong: counts by slice; a click on a cell shows its texts."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.classified import Cell, WholeClassifier, WrongText
from ui.components.markup import escape, percent
from ui.components.messages import show_empty

_CHOSEN = "confusion-cell"
_ALL = "all texts"
_WIDTHS = (2.2, 1, 1, 1, 1, 1)


def show(whole: WholeClassifier) -> None:
    versions = [each.number for each in whole.ladder if each.f1 is not None]
    if not versions:
        show_empty("No version was measured yet", "The first one comes once its texts are labelled.")
        return
    standing = whole.classifier.standing
    left, right = st.columns([1, 3])
    number = left.selectbox("Version", versions, index=versions.index(standing) if standing in versions else 0)
    attribute = right.segmented_control("Split by", [_ALL, *whole.attributes], default=_ALL) or _ALL
    split = "" if attribute == _ALL else attribute
    cells = session.client().confusion(whole.classifier.case_id, number, split)
    _grid(cells, whole.classifier.classes)
    chosen = st.session_state.get(_CHOSEN)
    if chosen is not None and any((each.slice, each.wanted, each.said) == chosen for each in cells):
        _show_texts(whole, number, split, chosen)


def _grid(cells: tuple[Cell, ...], classes: tuple[str, str]) -> None:
    """A row a slice: right ones, missed ones, false alarms; each a button."""
    positive, negative = classes
    kinds = ((positive, positive), (positive, negative), (negative, positive), (negative, negative))
    heads = ("Slice", "found", "missed", "false alarms", "rightly left", "right")
    for place, head in zip(st.columns(_WIDTHS), heads, strict=True):
        place.html(f"<small>{head}</small>")
    counted = {(each.slice, each.wanted, each.said): each.num_texts for each in cells}
    for name in sorted({each.slice for each in cells}):
        places = st.columns(_WIDTHS, vertical_alignment="center")
        places[0].html(f"<b>{escape(name or _ALL)}</b>")
        counts = [counted.get((name, *kind), 0) for kind in kinds]
        for place, kind, count in zip(places[1:5], kinds, counts, strict=True):
            place.button(
                str(count), key=f"cell:{name}:{kind[0]}:{kind[1]}", disabled=not count, width="stretch",
                on_click=_choose, args=((name, *kind),),
            )  # fmt: skip
        places[5].html(percent((counts[0] + counts[3]) / sum(counts)))


def _choose(cell: tuple[str, str, str]) -> None:
    st.session_state[_CHOSEN] = cell


def _show_texts(whole: WholeClassifier, number: int, split: str, cell: tuple[str, str, str]) -> None:
    name, wanted, said = cell
    found = session.client().confused_texts(
        whole.classifier.case_id, number, split, slice_value=name, wanted=wanted, said=said
    )
    st.html(f"<h3>{escape(name or _ALL)}: is {escape(wanted)}, was called {escape(said)}</h3>")
    st.html(f'<div class="lt-cards">{"".join(_card(each) for each in found)}</div>')


def _card(each: WrongText) -> str:
    return (
        f'<div class="lt-card"><div class="lt-text">{escape(each.text[:1200])}</div>'
        f"<small>{escape(each.item)}, probability {each.probability:.3f}</small></div>"
    )
