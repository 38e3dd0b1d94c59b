"""Runs: every training and re-run, newest first."""

from __future__ import annotations

import streamlit as st

from ui import links, session
from ui.components import chips
from ui.components.markup import escape, when
from ui.components.messages import show_empty
from ui.records import Run

_KINDS = {"Trainings": "training", "Re-runs of investigations": "diagnostic"}
LIMIT, SHOWN = 1000, 100
_HEAD = "<tr><th>Run</th><th>State</th><th>Last step</th><th>Started from</th><th>Recorded</th></tr>"


def page() -> None:
    st.html("<h1 class='lt-page'>Runs</h1>")
    which, wanted = st.columns([1.4, 1], vertical_alignment="bottom")
    kind = which.segmented_control("Kind", list(_KINDS), default="Trainings", label_visibility="collapsed")
    words = wanted.text_input("Find", placeholder="find by name, id or state", label_visibility="collapsed").split()
    runs = session.client().runs(role=_KINDS.get(kind or ""), limit=LIMIT)
    found = [run for run in runs if _matches(run, words)]
    if not runs:
        show_empty("No runs of this kind yet", "`lathe train` starts one; `lathe demo` shows a whole investigation.")
        return
    if not found:
        show_empty("No run is like that", f"Looked at the newest {len(runs)}; use other words, or fewer.")
        return
    rows = "".join(row(run) for run in found[:SHOWN])
    st.html(f'<div class="lt-scroll"><table class="lt-table"><thead>{_HEAD}</thead><tbody>{rows}</tbody></table></div>')
    if len(found) > SHOWN or len(runs) == LIMIT:
        st.html(
            f'<p class="lt-muted">{min(SHOWN, len(found))} of {len(found)} among the newest {len(runs)} runs; '
            "<code>lathe runs</code> lists all.</p>"
        )


def _matches(run: Run, words: list[str]) -> bool:
    text = f"{run.name} {run.id} {run.state}".lower()
    return all(word.lower() in text for word in words)


def row(run: Run) -> str:
    origin = "random weights"
    if run.parent_run_id:
        at = "" if run.parent_step is None else f", step {run.parent_step}"
        origin = f'<a href="{escape(links.run(run.parent_run_id))}" target="_self">{escape(run.parent_run_id)}</a>{at}'
        both = links.compare([run.parent_run_id, run.id])
        origin += f' · <a href="{escape(both)}" target="_self">compare</a>'
    if run.investigation_id:
        address = links.investigation(run.investigation_id)
        origin += f' · <a href="{escape(address)}" target="_self">its case</a>'
    return (
        f'<tr><td><a href="{escape(links.run(run.id))}" target="_self"><b>{escape(run.name)}</b></a>'
        f"<div class='lt-muted'>{escape(run.id)}</div></td><td>{chips.state(run.state)}"
        f"<div class='lt-muted'>{escape(run.message)}</div></td><td>{run.last_step}</td>"
        f"<td>{origin}</td><td>{escape(when(run.created_at))}</td></tr>"
    )
