"""Any object by its reference: what it is, what it rests on, and the page that is about it, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from urllib.parse import parse_qsl, unquote, urlsplit

import streamlit as st

from ui import links, session
from ui.case import findings, memory, triage
from ui.catalog import Why, WhyNode
from ui.components import chips, diff_view
from ui.components.markup import escape
from ui.components.messages import show_empty
from ui.components.tables import row, table
from ui.transport import ApiError

_HEADS = ("What", "Role", "Rests on")
MAX_ID = 48
_NAMES = {"negative": "negative result", "anomaly": "finding"}
_EXAMPLES = "run:ID, investigation:ID, verdict:12, anomaly:3, proposal:ID, negative:4, commit:HASH, score:7"


def page() -> None:
    reference = st.query_params.get("ref", "")
    kind, _, rest = reference.partition(":")
    target, _, part = rest.partition("#")
    if not (kind and target):
        _ask()
        return
    if address := links.own_page(reference):
        _go(address)
    why = session.client().why(kind, unquote(target))
    _show(why, part)


def _ask() -> None:
    st.html("<h1 class='lt-page'>Open an object</h1>")
    show_empty("Every object has a reference", f"Write one, for instance: {_EXAMPLES}")
    if typed := st.text_input("Reference", placeholder="verdict:12").strip():
        st.query_params["ref"] = typed
        st.rerun()


def _go(address: str) -> None:
    """To a page of its own. Does not return."""
    found = urlsplit(address)
    st.switch_page(session.page(found.path.strip("/") or "today"), query_params=dict(parse_qsl(found.query)))


def _show(why: Why, part: str) -> None:
    asked = why.nodes[0]
    owner = f"<p class='lt-muted'>{escape(asked.owner)} answers for it.</p>" if asked.owner else ""
    slice_ = f" {chips.tag(part)}" if part else ""
    is_negative = asked.kind == "negative" and asked.title is not None
    statement = "" if is_negative else f"<p class='lt-statement'>{escape(asked.title or 'not stored')}{slice_}</p>"
    name = _NAMES.get(asked.kind, asked.kind)
    st.html(f"<h1 class='lt-page'>{escape(name)} {escape(asked.id)}</h1>{statement}{owner}")
    if asked.kind == "anomaly" and asked.title is not None:
        _show_triage(findings.subject(int(asked.id)))
    if asked.kind == "commit":
        _show_commit(asked.id)
    if is_negative:
        whole = session.client().negative(asked.id)
        st.html(memory.card(whole.negative, with_link=False) + memory.neighbours(whole))
    if not why.links:
        show_empty("It rests on nothing else", "It is a record itself: points, lines or fields as they came.")
        return
    st.html("<h3>Everything it rests on, nearest first</h3>" + table(_HEADS, _rows(why), look="lt-why"))
    if why.truncated:
        st.html(f"<p class='lt-muted'>There is more: <code>lathe why {escape(asked.kind)} ID</code> shows it.</p>")


def _show_triage(subject: str) -> None:
    mark = session.client().marks([subject]).get(subject)
    st.html(triage.chip(mark))
    triage.show(subject, mark)


def _rows(why: Why) -> Iterator[str]:
    """A row a link; what rests on several things is named once."""
    for source, group in groupby(why.links, key=lambda link: link.source):
        for index, link in enumerate(group):
            target, head = why.nodes[link.target], _address(why.nodes[source]) if index == 0 else ""
            title = escape(target.title) if target.title is not None else "<i>not stored</i>"
            part = f"<code>{escape(link.slice)}</code>" if link.slice else ""
            yield row([head, escape(link.role), f"{_address(target)} {part}<div>{title}</div>"])


def _address(node: WhyNode) -> str:
    address = escape(links.own_page(node.ref) or links.anything(node.ref))
    return f'<a href="{address}" target="_self">{escape(node.kind)} {escape(node.id[:MAX_ID])}</a>'


def _show_commit(commit: str) -> None:
    """What it changes, of the first project that has it."""
    client = session.client()
    for project in client.projects():
        try:
            diff = client.commit_diff(project.id, commit)
        except ApiError:
            continue
        st.html(diff_view.render(diff) if diff else "<p class='lt-muted'>It changes no text.</p>")
        return
