"""By what runs differ, side by side: only what differs, and never "the same" where a side was not recorded."""

from __future__ import annotations

from collections.abc import Sequence

from ui.components.markup import escape
from ui.components.tables import row, table
from ui.records import ConfigChange, Difference, Run

_SECTIONS = {
    "config": "Configuration, as declared",
    "effective": "Configuration, as really used",
    "mixture": "Data mixture",
    "environment": "Environment",
}
_NOT_RECORDED = '<span class="lt-muted" title="At least one side says nothing of it">not recorded</span>'
_SAME = '<span class="lt-muted">same</span>'
MAX_COMMITS = 12
_SHORT = 24


def labels(runs: Sequence[Run]) -> dict[str, str]:
    """Short and different names of runs, by id."""
    names = [run.name for run in runs]
    return {
        run.id: run.name[:_SHORT] if names.count(run.name) == 1 and len(run.name) <= _SHORT else run.id[:_SHORT]
        for run in runs
    }


def render(runs: Sequence[Run], found: Sequence[Difference]) -> str:
    """HTML. `runs`: the one that the others are compared with, then those; `found`: one for each of those.

    What differs comes first; sections without a difference are one line each.
    """
    silent, loud = "", ""
    for name, title in _SECTIONS.items():
        changes: list[dict[str, ConfigChange]] = [{each.key: each for each in getattr(one, name)} for one in found]
        unknown = [name in one.not_recorded for one in found]
        if any(changes):
            loud += f"<h3>{title}</h3>{_fields(runs, changes, unknown)}"
        else:
            silent += f"<dt>{title}</dt><dd>{_silence(unknown)}</dd>"
    rest = f"<h3>Otherwise</h3><dl>{silent}</dl>" if silent else ""
    return f"<h3>Code</h3>{_code(runs, found)}{loud}{rest}"


def _fields(runs: Sequence[Run], changes: Sequence[dict[str, ConfigChange]], unknown: Sequence[bool]) -> str:
    names = labels(runs)
    heads = ["Field", *(escape(names[run.id]) for run in runs)]
    keys = sorted(set().union(*changes))
    rows = [row([f"<code>{escape(key)}</code>", *_values(key, changes, unknown)]) for key in keys]
    return table(heads, rows, look="lt-fields")


def _silence(unknown: Sequence[bool]) -> str:
    if all(unknown):
        return "Not recorded on both sides, so nothing can be said."
    if any(unknown):
        return "No difference where it is recorded; of some runs it is not recorded."
    return "No difference."


def _values(key: str, changes: Sequence[dict[str, ConfigChange]], unknown: Sequence[bool]) -> list[str]:
    """The first run's value, then those of the others."""
    base = next(change[key] for change in changes if key in change)
    cells = [_value(base.before, is_absent=base.status == "added")]
    for change, is_unknown in zip(changes, unknown, strict=True):
        if key in change:
            cells.append(f"<mark>{_value(change[key].after, is_absent=change[key].status == 'removed')}</mark>")
        else:
            cells.append(_NOT_RECORDED if is_unknown else _SAME)
    return cells


def _value(value: object, *, is_absent: bool) -> str:
    return "<i>not set</i>" if is_absent else escape(value)


def _code(runs: Sequence[Run], found: Sequence[Difference]) -> str:
    names = labels(runs)
    rows = [row([escape(names[run.id]), *_versions(one)]) for run, one in zip(runs[1:], found, strict=True)]
    return table(
        ("Run", f"Against {escape(names[runs[0].id])}", "Commits it has besides"), rows, look="lt-fields lt-commits"
    )


def _versions(one: Difference) -> tuple[str, str]:
    code = one.code
    if "code" in one.not_recorded:
        return _NOT_RECORDED, ""
    if code.before == code.after:
        return f"the same code, <code>{escape(code.after[:10])}</code>", ""
    commits = "".join(
        f"<li><code>{escape(commit.hash[:10])}</code> {escape(commit.subject)} "
        f"<span class='lt-muted'>{escape(commit.author)}</span></li>"
        for commit in code.commits[-MAX_COMMITS:]
    )
    more = len(code.commits) - MAX_COMMITS
    shown = f"<ul class='lt-plain'>{commits}</ul>" if commits else "none"
    versions = f"<code>{escape(code.before[:10])}</code> → <code>{escape(code.after[:10])}</code>"
    return versions, shown + (f"<p class='lt-muted'>and {more} older ones</p>" if more > 0 else "")
