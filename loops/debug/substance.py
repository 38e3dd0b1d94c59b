"""What a hunk changes in substance, read off its removed and added lines. Says what is likely, never what is certain:
an innocent-looking change is examined last, not never."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import pairwise, zip_longest
from pathlib import PurePosixPath

from context_store.records import Hunk

_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|[^\s\w]")
_NUMBER = re.compile(r"^\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?$")
_QUOTED = re.compile(r"[\"']")
_QUIET_FOLDERS = frozenset({"tests", "test", "docs", "doc"})
_QUIET_SUFFIXES = frozenset({".md", ".rst", ".txt"})
_PRINTS = re.compile(r"\bprint\(|\b(?:logging|logger|log|console)\.\w+\(")
_FORMAT = re.compile(r"\{[^{}]*:[^{}]*\}")  # a placeholder with a format, inside a string
SMALL_TWEAK = 0.2  # relative change of a number below which a change counts as small


class Substance(StrEnum):
    """Classes of change, least suspicious first."""

    DOCUMENTATION = "documentation or tests only"
    COMMENT = "comments or docstrings only"
    RENAME = "only renames identifiers"
    LOGGING = "only what is printed"
    SMALL_NUMBER = f"changes a number by less than {SMALL_TWEAK:.0%}"
    LOGIC = "changes what the code does"
    LARGE_NUMBER = "changes a number a lot"


def substance(hunks: Sequence[Hunk]) -> Substance:
    """The most suspicious class among a commit's hunks; a commit without hunks changes nothing."""
    return max((_of_hunk(hunk) for hunk in hunks), key=list(Substance).index, default=Substance.DOCUMENTATION)


def changed_lines(hunk: Hunk) -> tuple[list[str], list[str]]:
    """(removed, added) lines of a hunk's text, without their marks."""
    lines = [line for line in hunk.text.splitlines() if not line.startswith(("@@", "---", "+++", "\\"))]
    return [line[1:] for line in lines if line.startswith("-")], [line[1:] for line in lines if line.startswith("+")]


def tokens(lines: Sequence[str]) -> list[str]:
    """Tokens of the code in `lines`; comments, docstrings and prose are dropped."""
    return [token for line in lines if _is_code(line) for token in _TOKEN.findall(_strip_comment(line))]


def _of_hunk(hunk: Hunk) -> Substance:
    path = PurePosixPath(hunk.path)
    if path.suffix in _QUIET_SUFFIXES or _QUIET_FOLDERS.intersection(path.parts) or path.name.startswith("test_"):
        return Substance.DOCUMENTATION
    removed, added = (tokens(lines) for lines in changed_lines(hunk))
    if removed == added:
        return Substance.COMMENT
    if _only_prints(*changed_lines(hunk)):
        return Substance.LOGGING
    renamed = _differs_in(removed, added, str.isidentifier)
    if renamed is not None and all(len(names) == 1 for names in renamed.values()):
        return Substance.RENAME
    if _differs_in(removed, added, lambda token: bool(_NUMBER.match(token))) is not None:
        return _of_numbers(_numbers(removed), _numbers(added))
    return Substance.LOGIC


def _only_prints(removed: Sequence[str], added: Sequence[str]) -> bool:
    """True when each changed line prints or logs, or when only how a string formats values has changed."""
    lines = [line for line in (*removed, *added) if _is_code(line)]
    if lines and all(_PRINTS.search(line) for line in lines):
        return True
    before, after = tokens(removed), tokens(added)
    changed = _differs_in(before, after, lambda token: bool(_QUOTED.match(token)))
    texts = [] if changed is None else [(old, new) for old, news in changed.items() for new in news if old != new]
    return bool(texts) and all(_FORMAT.search(old) or _FORMAT.search(new) for old, new in texts)


def _numbers(of: Sequence[str]) -> list[float]:
    return [float(token.replace("_", "")) for token in of if _NUMBER.match(token)]


def _of_numbers(before: Sequence[float], after: Sequence[float]) -> Substance:
    ratios = [abs(b - a) / max(abs(a), 1e-12) for a, b in zip_longest(before, after, fillvalue=0.0)]
    return Substance.SMALL_NUMBER if max(ratios, default=0.0) < SMALL_TWEAK else Substance.LARGE_NUMBER


def _differs_in(
    removed: Sequence[str], added: Sequence[str], free: Callable[[str], bool]
) -> dict[str, set[str]] | None:
    """Tokens that changed -> what they became, when only `free` tokens changed and none came or went; else None."""
    if len(removed) != len(added):
        return None
    changed: dict[str, set[str]] = {}
    for old, new in zip(removed, added, strict=True):
        if old != new and not (free(old) and free(new)):
            return None
        if free(old):
            changed.setdefault(old, set()).add(new)
    return changed


def _is_code(line: str) -> bool:
    """False for blank lines, comments and prose: in Python two plain words never stand side by side."""
    stripped = _strip_comment(line).strip()
    if not stripped or stripped.startswith(('"""', "'''")):
        return False
    words = [token for token in _TOKEN.findall(stripped) if not _QUOTED.match(token)]
    return not any(_is_plain(left) and _is_plain(right) for left, right in pairwise(words))


def _is_plain(token: str) -> bool:
    return (token.isidentifier() and not keyword.iskeyword(token)) or bool(_NUMBER.match(token))


def _strip_comment(line: str) -> str:
    """Without a trailing `# ...`; a `#` inside quotes is kept when the quotes close after it."""
    head, mark, tail = line.partition("#")
    return head if mark and head.count('"') % 2 == 0 and head.count("'") % 2 == 0 else head + mark + tail
