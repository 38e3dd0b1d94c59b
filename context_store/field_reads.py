"""Which configuration fields a piece of code reads, by name. Pure; says what is likely, never what is certain.

A chain of names in the code (`config.moe.balance.coef`, `cfg["lr"]`) is a field when both end alike: in two names or
more, or in one that no other field ends with. Among several fields with that last name, those count that share a
further word with the code's own names. Not covered: fields that reach the code under another name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_SUBSCRIPT = re.compile(r"""(?:\[\s*|\.get\(\s*)["']([\w.\-]+)["']\s*(?:[\])]|(?=,))""")
_CHAIN = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_KEY = re.compile(r"""^\s*["']?([^\W\d][\w.\-]*)["']?\s*[:=]""", re.M)
_MIN_NAME = 2
_MAX_CANDIDATES = 4


class FieldNames:
    """The fields of a project, ready to be found in code."""

    def __init__(self, fields: Collection[str]) -> None:
        self._by_last: dict[str, list[tuple[str, ...]]] = {}
        for field in fields:
            parts = tuple(field.split("."))
            self._by_last.setdefault(parts[-1], []).append(parts)

    def read_by(self, code: str, around: Iterable[str] = ()) -> dict[str, str]:
        """Field -> the words of the code that name it. `around`: path and symbols of the code."""
        context = set(split_words([*around, *_CHAIN.findall(code)]))
        found: dict[str, str] = {}
        for chain in chains(code):
            for field in self._fields_of(chain.split("."), context):
                found.setdefault(field, chain)
        return found

    def _fields_of(self, names: list[str], context: set[str]) -> list[str]:
        candidates = self._by_last.get(names[-1], [])
        if not candidates or len(names[-1]) < _MIN_NAME:
            return []
        overlap = {parts: _common_end(parts, names) for parts in candidates}
        longest = max(overlap.values())
        best = [parts for parts in candidates if overlap[parts] == longest]
        if longest == 1 and len(best) > 1:
            best = [parts for parts in best if set(split_words(parts[:-1])) & context]
        return [".".join(parts) for parts in best] if len(best) <= _MAX_CANDIDATES else []


def chains(code: str) -> dict[str, None]:
    """Names that may be fields, in order: attribute chains, subscripts by text, and keys of configuration files."""
    dotted = _SUBSCRIPT.sub(lambda match: f".{match[1]}", code)
    found = {chain: None for chain in _CHAIN.findall(dotted) if "." in chain}
    return found | dict.fromkeys(_KEY.findall(code))


def split_words(names: Iterable[str]) -> Iterable[str]:
    """Lower-case words of dotted, slashed and snake-case names."""
    for name in names:
        yield from (word for word in re.split(r"[\W_]+", name.lower()) if len(word) > 1)


def _common_end(parts: tuple[str, ...], names: list[str]) -> int:
    count = 0
    for part, name in zip(reversed(parts), reversed(names), strict=False):
        if part != name:
            break
        count += 1
    return count
