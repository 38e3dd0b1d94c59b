"""A 2×2 of two suspects that may need each other: what happens with neither, either and both."""

from __future__ import annotations

from dataclasses import dataclass

from ui.components.markup import escape, percent
from ui.records import Case, Diagnostic


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Titles of the two suspects and the four cells by (first in, second in)."""

    first: str
    second: str
    by_presence: dict[tuple[bool, bool], Diagnostic | None]


def cells(case: Case) -> Cells | None:
    """The 2×2 when the loop ran one, else None: the good code with neither, either and both suspects."""
    both = next((d for d in case.diagnostics if d.kind == "combination" and len(d.suspect_keys) == 2), None)
    if both is None:
        return None
    titles = {suspect.key: suspect.title for suspect in case.suspects}
    first, second = both.suspect_keys
    found = {
        (False, False): _find(case, "control", ()),
        (True, False): _find(case, "add", (first,)),
        (False, True): _find(case, "add", (second,)),
        (True, True): both,
    }
    return Cells(first=titles.get(first, first), second=titles.get(second, second), by_presence=found)


def _find(case: Case, kind: str, keys: tuple[str, ...]) -> Diagnostic | None:
    return next((d for d in case.diagnostics if d.kind == kind and d.suspect_keys == keys), None)


def render(table: Cells) -> str:
    def cell(first: bool, second: bool) -> str:
        found = table.by_presence[first, second]
        if found is None or found.measure is None:
            return "<td>not run yet</td>"
        share = max(0.0, min(1.0, found.measure))
        return (
            f'<td style="--share:{share:.2f}" class="lt-cell"><b>{percent(found.measure)}</b>'
            f"<span>{escape(found.reading)}</span></td>"
        )

    return (
        '<h3>Do they need each other?</h3><p class="lt-lead">Share of the anomaly that each combination '
        'shows.</p><table class="lt-grid"><thead><tr><td></td>'
        f"<th>without {escape(table.second)}</th><th>with {escape(table.second)}</th></tr></thead><tbody>"
        f"<tr><th>without {escape(table.first)}</th>{cell(False, False)}{cell(False, True)}</tr>"
        f"<tr><th>with {escape(table.first)}</th>{cell(True, False)}{cell(True, True)}</tr></tbody></table>"
    )
