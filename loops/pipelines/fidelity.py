"""The fidelity audit of a rewriter: a repair may take away what it declares, and never adds, changes or moves anything.

It looks at what a text says, not at rules: whoever repairs text, a rule or a model, is held against the same audit.
Words, numbers and signs must come in the same order. What it does not see: blanks and line ends, how many marks of a
quote begin a line, and characters that HTML entities or quoted-printable escapes stand for.
"""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

_SOFT_BREAK = re.compile(r"=\r?\n")
_ESCAPES = re.compile(r"(?:=[0-9A-F]{2})+")
_ESCAPE = re.compile(r"=(?:[0-9A-F]{2}|\r?\n)")
_TOKEN = re.compile(r"https?://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)*|\d[\d.,:/]*\d|\w+(?:['’]\w+)*|[^\w\s]")
_QUOTE_MARKS = re.compile(r"^[ \t]*[>|](?:[ \t]*[>|])*", re.MULTILINE)
_MOST_COMPARED = 4000  # tokens that differ; of more it is said that all of them do


@dataclass(frozen=True, kw_only=True)
class Audit:
    """`added`: words and signs that were not there; `lost`: those that went though nothing declared takes them away.
    What was moved is both."""

    added: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.added and not self.lost


def audit(before: str, after: str, removed: Sequence[str]) -> Audit:
    """`removed`: the pieces of `before` that the rewriter says it took away, each of them as a whole."""
    were, are = tokens(before), tokens(after)
    for piece in removed:
        were = _without(were, tokens(piece))
    if were == are:
        return Audit(added=(), lost=())
    begin, end = _same_ends(were, are)
    were, are = were[begin : len(were) - end], are[begin : len(are) - end]
    if len(were) + len(are) > _MOST_COMPARED:
        return Audit(added=tuple(sorted(are)), lost=tuple(sorted(were)))
    added, lost = list[str](), list[str]()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, were, are, autojunk=False).get_opcodes():
        if kind != "equal":
            lost += were[a:b]
            added += are[c:d]
    return Audit(added=tuple(sorted(added)), lost=tuple(sorted(lost)))


def tokens(text: str) -> list[str]:
    """Words, numbers, addresses and single signs, in order, as they read once entities and quoted-printable are
    decoded; marks of a quote at the beginning of a line are layout."""
    plain = undone(text) if is_quoted_printable(text) else text
    read = html.unescape(html.unescape(plain)).replace("\r\n", "\n")
    return _TOKEN.findall(_QUOTE_MARKS.sub("", read))


def _without(whole: list[str], piece: list[str]) -> list[str]:
    """`whole` without the last place where it has `piece`; as it is where it has it nowhere."""
    for at in range(len(whole) - len(piece), -1, -1):
        if whole[at : at + len(piece)] == piece:
            return whole[:at] + whole[at + len(piece) :]
    return whole


def _same_ends(one: list[str], other: list[str]) -> tuple[int, int]:
    """How many tokens are the same at the beginning, and how many of the rest at the end."""
    least = min(len(one), len(other))
    begin = next((at for at in range(least) if one[at] != other[at]), least)
    least -= begin
    end = next((at for at in range(least) if one[-1 - at] != other[-1 - at]), least)
    return begin, end


def is_quoted_printable(text: str) -> bool:
    """Every `=` begins an escape or breaks a line, and there are several: an address with one `=20` is none."""
    return text.count("=") >= 2 and text.count("=") == len(_ESCAPE.findall(text))


def undone(text: str) -> str:
    """Without soft line breaks and with each run of escapes as UTF-8, else as Latin-1."""
    return _ESCAPES.sub(_decoded, _SOFT_BREAK.sub("", text))


def _decoded(match: re.Match[str]) -> str:
    raw = bytes.fromhex(match[0].replace("=", ""))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
