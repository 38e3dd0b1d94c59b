"""The proof: what the run does when one change is taken out or put in, each against the run itself and the control."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from ui.case import grid
from ui.case.curve import judged_series
from ui.client import Client
from ui.components import units
from ui.components.markup import escape, words
from ui.components.series_plot import Line, Style
from ui.components.small_multiples import Panel, show_grid
from ui.palette import Palette
from ui.records import Case, Diagnostic, Series
from ui.transport import ApiError

NOT_FOUND = 404
BUCKETS = 60
MAX_LINES = 3
HALFWAY = 0.5
_CONTROL = "control"
_ROLES = {
    "replay": "the same again (A/A)",
    "control": "last good version",
    "revert": "suspect taken out",
    "add": "suspect put into the good version",
    "placebo": "innocent change taken out",
    "combination": "two suspects put into the good version",
    "fresh_seed": "another seed",
    "swap": "ranks in each other's place",
    "proxy": "smaller training",
}


def show(client: Client, case: Case, colours: Palette) -> None:
    """Nothing before the first re-run is planned."""
    if not case.diagnostics or case.leading is None or not case.leading.series:
        return
    names = judged_series(case.leading)[:MAX_LINES]
    of = ", ".join(units.short(name) for name in names)
    st.html(
        "<h3>Re-runs: the same training, one thing changed</h3>"
        f"<p class='lt-lead'>{escape(units.axis_title(names[0]))} of {escape(of)} over optimizer steps, all on one "
        "scale. Measure: 0 is like the good version, 1 like the run as it happened.</p>"
    )
    found = {each.key: _points(client, each.run_id, names) for each in case.diagnostics}
    control = next((found[each.key] for each in case.diagnostics if each.kind == _CONTROL), ())
    st.html(f'<div class="lt-title"><span></span><div>{legend(has_control=bool(control))}</div></div>')
    reference = _points(client, case.its_run.id, names)
    panels = [
        panel(each, found[each.key], reference, () if each.kind == _CONTROL else control) for each in case.diagnostics
    ]
    show_grid(f"reruns:{case.investigation.id}", panels, units.brief(names[0]), case.leading.onset, colours)
    if cells := grid.cells(case):
        st.html(grid.render(cells))


def legend(*, has_control: bool) -> str:
    """What stands behind every re-run, in words."""
    entries = [("reference", "the run as it happened")]
    if has_control:
        entries.append(("control", "control: the last good version"))
    entries += [("faulty", "re-run that departs"), ("fixed", "re-run that stays healthy"), ("onset", "onset")]
    return "".join(f'<span class="lt-key lt-key-{look}">{escape(text)}</span>' for look, text in entries)


def panel(
    diagnostic: Diagnostic, found: Sequence[Series], reference: Sequence[Series], control: Sequence[Series]
) -> Panel:
    """`found`: the points of the re-run itself; drawn last, on the run as it happened and on the control."""
    tone = tone_of(diagnostic.measure)
    style = {"departs": Style.FAULTY, "healthy": Style.FIXED}.get(tone, Style.HEALTHY)
    lines: list[Line] = []
    if found:
        lines = [Line(label="the run", series=series, style=Style.REFERENCE) for series in reference]
        lines += [Line(label="the control", series=series, style=Style.CONTROL) for series in control]
        lines += [Line(label=units.short(series.name), series=series, style=style) for series in found]
    return Panel(
        key=diagnostic.key,
        role=_ROLES.get(diagnostic.kind, words(diagnostic.kind)),
        label=diagnostic.label,
        reading=diagnostic.reading or "running or waiting",
        tone=tone,
        lines=tuple(lines),
    )


def tone_of(measure: float | None) -> str:
    """Colour of a panel by the measure's nearer end (0 healthy, 1 departs); open without a measure."""
    if measure is None or not math.isfinite(measure):
        return "open"
    return "departs" if measure >= HALFWAY else "healthy"


def _points(client: Client, run_id: str, names: Sequence[str]) -> tuple[Series, ...]:
    """Nothing for a run that was not started or has no steps yet."""
    try:
        found = client.points(run_id, names, buckets=BUCKETS)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return ()
    return tuple(series for series in found if series.steps)
