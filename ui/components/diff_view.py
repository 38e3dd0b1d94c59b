"""A unified diff side by side: before on the left, after on the right, changed words set off.

Everything is escaped, and invisible or direction-changing characters are spelled out, so that what a person
approves is what they read.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from ui.components.markup import escape

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$")
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_SIMILAR = 0.5  # below this share of equal text, a pair of lines is marked as a whole


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. `kind`: file, note, hunk (text in `old`), same, change; an absent side is None."""

    kind: str
    old: str | None = None
    new: str | None = None
    old_number: int | None = None
    new_number: int | None = None


def rows(diff: str) -> Iterator[Row]:
    """Every line of `diff` that says something, in order; counts in the hunk headers decide what is content."""
    lines = iter(diff.split("\n"))
    for line in lines:
        if match := _HUNK.match(line):
            old_start, old_count, new_start, new_count, heading = match.groups()
            yield Row(kind="hunk", old=heading)
            body = _take(lines, int(old_count or 1), int(new_count or 1))
            yield from _paired(body, int(old_start), int(new_start))
        elif line.startswith("diff --git "):
            yield Row(kind="file", old=line.rpartition(" b/")[2])
        elif line.startswith(("--- ", "+++ ", "index ")) or not line.strip():
            continue
        else:
            yield Row(kind="note", old=line)


def _take(lines: Iterator[str], num_old: int, num_new: int) -> list[str]:
    """The lines of one hunk."""
    taken: list[str] = []
    while num_old > 0 or num_new > 0:
        line = next(lines, None)
        if line is None:
            break
        if line.startswith("\\"):
            continue
        taken.append(line)
        num_old -= not line.startswith("+")
        num_new -= not line.startswith("-")
    return taken


def _paired(body: Sequence[str], old_number: int, new_number: int) -> Iterator[Row]:
    """Removed lines beside the added lines that replace them."""
    for changed, group in groupby(body, key=lambda line: line[:1] in ("-", "+")):
        block = list(group)
        old_lines = [line[1:] for line in block if not changed or line[0] == "-"]
        new_lines = [line[1:] for line in block if not changed or line[0] == "+"]
        for offset, (old, new) in enumerate(zip_longest(old_lines, new_lines)):
            yield Row(
                kind="change" if changed else "same",
                old=old,
                new=new,
                old_number=None if old is None else old_number + offset,
                new_number=None if new is None else new_number + offset,
            )
        old_number += len(old_lines)
        new_number += len(new_lines)


def render(diff: str) -> str:
    """The table as HTML."""
    body = "".join(_row(row) for row in rows(diff))
    columns = '<colgroup><col class="lt-number"><col><col class="lt-number"><col></colgroup>'
    return f'<div class="lt-scroll"><table class="lt-diff">{columns}<tbody>{body}</tbody></table></div>'


def _row(row: Row) -> str:
    if row.kind in ("file", "note", "hunk"):
        text = visible(row.old or "") or "⋯"
        return f'<tr class="lt-diff-{row.kind}"><td colspan="4">{text}</td></tr>'
    if row.kind == "same":
        old = new = visible(row.old or "")
    else:
        old, new = _contrast(row.old, row.new)
    sides = _side("old", row.old_number, old, row.kind) + _side("new", row.new_number, new, row.kind)
    return f'<tr class="lt-diff-{row.kind}">{sides}</tr>'


def _side(side: str, line_number: int | None, text: str, kind: str) -> str:
    if line_number is None:
        return '<td class="lt-number lt-void"></td><td class="lt-void"></td>'
    look = f"lt-{side}" if kind == "change" else ""
    sign = {"old": "−", "new": "+"}[side] if kind == "change" else " "
    return f'<td class="lt-number {look}">{line_number}</td><td class="{look}"><i>{sign}</i>{text}</td>'


def _contrast(old: str | None, new: str | None) -> tuple[str, str]:
    """Both sides as HTML, with the words that differ marked when the lines are similar enough."""
    if old is None or new is None:
        return visible(old or ""), visible(new or "")
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(a=old_words, b=new_words, autojunk=False)
    if matcher.ratio() < _SIMILAR:
        return visible(old), visible(new)
    old_html, new_html = "", ""
    for operation, a_lo, a_hi, b_lo, b_hi in matcher.get_opcodes():
        before, after = visible("".join(old_words[a_lo:a_hi])), visible("".join(new_words[b_lo:b_hi]))
        if operation != "equal":
            before, after = (f"<mark>{text}</mark>" if text else "" for text in (before, after))
        old_html, new_html = old_html + before, new_html + after
    return old_html, new_html


def visible(text: str) -> str:
    """Escaped, with control and format characters (among them those that reverse the writing direction) spelled out."""
    shown = (
        f"⟨U+{ord(letter):04X}⟩" if unicodedata.category(letter) in ("Cc", "Cf") and letter != "\t" else letter
        for letter in text
    )
    return escape("".join(shown))
