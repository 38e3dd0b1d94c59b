"""What is now known for good: what was ruled out and why, and the report."""

from __future__ import annotations

import re

import streamlit as st

from ui import links
from ui.client import Client
from ui.components import chips, markup
from ui.components.markup import escape, words
from ui.components.messages import errors_shown
from ui.records import Case, Negative, WholeNegative


def show(client: Client, case: Case) -> None:
    if case.negatives:
        st.html("<h3>Ruled out, and kept so that nobody tries it again</h3>")
        st.html('<div class="lt-cards">' + "".join(card(negative) for negative in case.negatives) + "</div>")
    if case.report_markdown:
        with st.expander("Report"):
            st.markdown(markup.report(case.report_markdown))
            st.download_button(
                "Download as Markdown",
                case.report_markdown,
                file_name=f"{case.investigation.id}.md",
                mime="text/markdown",
                icon=":material/download:",
                on_click="ignore",
            )
            _offer_page(client, case.investigation.id)


def _offer_page(client: Client, case_id: str) -> None:
    """The report as one page with its plots, drawn when it is wanted."""
    if not st.button("Write it as one page with plots", icon=":material/draft:"):
        return
    with errors_shown():
        found = client.report(case_id)
        st.download_button(
            "Download the page", found.html, file_name=f"{case_id}.html", mime="text/html", on_click="ignore"
        )
        st.caption(f"Written by {found.brain}; {found.removed} of {found.claimed} claims removed.")


def card(negative: Negative, *, with_link: bool = True) -> str:
    """`with_link`: to the page of the record."""
    record = _record(negative) if with_link else ""
    return (
        f'<div class="lt-card"><b><s>{escape(negative.claim)}</s></b><p>{escape(negative.reason)}</p><dl>'
        f"<dt>Tried</dt><dd>{escape(negative.intervention)}</dd><dt>Expected</dt><dd>{escape(negative.expected)}</dd>"
        f"<dt>Seen</dt><dd>{escape(negative.observed)}</dd><dt>Look again if</dt><dd>{escape(negative.reopen_if)}</dd>"
        f"{_context(negative)}</dl>{chips.evidence(negative.evidence)}{record}</div>"
    )


def neighbours(whole: WholeNegative) -> str:
    """What says otherwise, with what is different there, and what is like it."""
    against = "".join(
        f'<li><a href="{escape(links.anything(each.reference))}" target="_self">{escape(each.statement)}</a>'
        f"<div class='lt-muted'>{escape('; '.join(each.differs)) or 'no difference is recorded'}</div></li>"
        for each in whole.contradictions
    )
    alike = "".join(
        f'<li><a href="{escape(links.anything(f"negative:{each.negative.id}"))}" target="_self">'
        f"{escape(each.negative.claim)}</a><div class='lt-muted'>{escape(each.why)}</div></li>"
        for each in whole.duplicates
    )
    said = f"<h3>Says otherwise; both stay</h3><ul>{against}</ul>" if against else ""
    return said + (f"<h3>Like it</h3><ul>{alike}</ul>" if alike else "")


def _context(negative: Negative) -> str:
    """In which circumstances it was tried."""
    facts = ", ".join(f"{escape(words(key))} {escape(_brief(value))}" for key, value in negative.context.items())
    return f"<dt>Where</dt><dd>{facts}</dd>" if facts else ""


def _brief(value: object) -> str:
    """Hashes by their first digits."""
    return re.sub(r"\b[0-9a-f]{32,64}\b", lambda found: found[0][:10], str(value))


def _record(negative: Negative) -> str:
    address = escape(links.anything(f"negative:{negative.id}"))
    return f'<div><a href="{address}" target="_self">Everything it rests on</a></div>'
