"""The fidelity audit of a rewriter: a repair may take away what it declares, and never adds or changes anything.

It looks at words, not at rules: whoever repairs text, a rule or a model, is held against the same audit. What it does
not see: the order of whole sentences, and layout.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_SOFT_BREAK = re.compile(r"=\r?\n")
_ESCAPES = re.compile(r"(?:=[0-9A-F]{2})+")
_ESCAPE = re.compile(r"=(?:[0-9A-F]{2}|\r?\n)")
_TOKEN = re.compile(r"https?://\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)*|\d[\d.,:/]*\d|\w+(?:['’]\w+)*")


@dataclass(frozen=True, kw_only=True)
class Audit:
    """`added`: words that were not there; `lost`: words that went though nothing declared takes them away."""

    added: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.added and not self.lost


def audit(before: str, after: str, removed: Sequence[str]) -> Audit:
    """`removed`: the pieces of `before` that the rewriter says it took away."""
    were, are = words(before), words(after)
    gone = sum((words(each) for each in removed), Counter[str]())
    return Audit(added=_listed(are - were), lost=_listed(were - are - gone))


def words(text: str) -> Counter[str]:
    """Words, numbers, addresses as they read once entities and quoted-printable are decoded."""
    plain = undone(text) if is_quoted_printable(text) else text
    return Counter(_TOKEN.findall(html.unescape(html.unescape(plain)).lower()))


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


def _listed(counted: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(counted.elements()))
