"""Who could have done it: ranked, the refuted ones struck out with the reason that cleared them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from ui.components import chips
from ui.components.markup import escape, words
from ui.components.messages import show_empty
from ui.records import Case, Suspect

TOP = 4
_HEAD = "<tr><th>#</th><th>Suspect</th><th>Kind</th><th>Suspicion</th><th>Outcome and reason</th></tr>"


def show(case: Case) -> None:
    st.html("<h3>Suspects: what changed before it began</h3>")
    if not case.suspects:
        show_empty("No suspects yet", "They appear here as soon as the timeline has been searched.")
        return
    scope = case.verdict.scope if case.verdict else None
    top = max(suspect.score for suspect in case.suspects) or 1.0
    shown = [suspect for suspect in case.suspects if suspect.status or suspect.rank <= TOP]
    rest = [suspect for suspect in case.suspects if suspect not in shown]
    roles = case.supplied_by.suspects
    st.html(table(shown, scope, top, roles))
    if rest:
        with st.expander(f"{len(rest)} less suspicious, not tested so far"):
            st.html(table(rest, scope, top, roles))


def table(suspects: Sequence[Suspect], scope: str | None, top: float, roles: Mapping[str, str]) -> str:
    """`roles`: which role of the team supplied a suspect, by its key."""
    rows = "".join(row(suspect, scope, top, roles.get(suspect.key, "")) for suspect in suspects)
    return (
        f'<div class="lt-scroll"><table class="lt-table lt-suspects"><thead>{_HEAD}</thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def row(suspect: Suspect, scope: str | None, top: float, role: str) -> str:
    title = escape(suspect.title)
    if suspect.status == "refuted":
        title = f"<s>{title}</s>"
    outcome = '<span class="lt-chip lt-tag">not decided</span>'
    if suspect.status:
        outcome = chips.verdict(suspect.status, scope)
    why, _, result = suspect.reason.partition(" | ")
    share = max(0.0, min(1.0, suspect.score / top))
    return (
        f'<tr class="lt-row-{escape(suspect.status or "open")}"><td>{suspect.rank}</td>'
        f"<td><div>{title}</div><div class='lt-muted'>{escape(why)}</div>{chips.evidence(suspect.evidence)}</td>"
        f"<td>{chips.tag(suspect.cause_kind)}<div class='lt-muted'>{escape(words(role))}</div></td>"
        f'<td title="{suspect.score:.3g}"><div class="lt-bar"><i style="width:{share * 100:.0f}%"></i></div></td>'
        f"<td>{outcome}<div>{escape(result)}</div></td></tr>"
    )
