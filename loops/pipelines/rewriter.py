"""A rewriter for mails: repairs what transport and mailing lists do to text (level L4), rule by rule, each audited.

A version is a tuple of rules. `rewrite` gives the text, and what was taken away; a text whose repair fails the fidelity
audit is left as it was.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contracts.errors import UserInputError
from loops.pipelines.component import Evaluation, EvaluationSet, digest_of
from loops.pipelines.fidelity import Audit, audit, is_quoted_printable, undone

RULES_VERSION = 1  # of what the rules below do
Repair = tuple[str, tuple[str, ...]]  # (text, what was taken away)
METRIC = "share of repaired lines"

_ENTITY = re.compile(r"&(?:#\d{2,5}|#x[0-9a-fA-F]{2,5}|amp|lt|gt|quot|apos|nbsp);")
_BLANKS = re.compile(r"[ \t]+$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")
_RULED = re.compile(r"^[_=*-]{10,}\s*$")
_LIST_WORDS = re.compile(r"mailing list|unsubscribe|sponsored by|listinfo|to post to this", re.IGNORECASE)
_FOOTER_LINES = 12  # a list's footer is at most so long
_QUOTE_MARKS = re.compile(r"^(?:[>|] ?){2,}", re.MULTILINE)
_WIDE = 60  # characters from which on a line was probably broken by a mail program


def entities(text: str) -> Repair:
    """HTML entities that a plain text should not have."""
    return _ENTITY.sub(lambda match: html.unescape(match[0]).replace("\xa0", " "), text), ()


def quoted_printable(text: str) -> Repair:
    """Soft line breaks and escapes that were not decoded."""
    return undone(text) if is_quoted_printable(text) else text, ()


def whitespace(text: str) -> Repair:
    """Line ends, blanks before them, more than one empty line."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n")
    return _EMPTY_LINES.sub("\n\n", _BLANKS.sub("", unix)).strip("\n") + "\n", ()


def quotes(text: str) -> Repair:
    """Marks of quotes within quotes, which every mail program writes otherwise, as `>>> `."""
    return _QUOTE_MARKS.sub(lambda match: f"{'>' * len(re.findall('[>|]', match[0]))} ", text), ()


def footer(text: str) -> Repair:
    """What a mailing list puts below a mail: from a ruled line on, when the few lines after it speak of the list."""
    lines = text.split("\n")
    for number in range(max(0, len(lines) - _FOOTER_LINES), len(lines)):
        below = "\n".join(lines[number:])
        if _RULED.match(lines[number]) and _LIST_WORDS.search(below):
            return "\n".join(lines[:number]).rstrip("\n") + "\n", (below,)
    return text, ()


def unwrap(text: str) -> Repair:
    """Joins lines that a mail program broke; it cannot tell them from the lines of a patch or a table."""
    joined: list[str] = []
    for line in text.split("\n"):
        if joined and len(joined[-1]) >= _WIDE and line[:1].islower():
            joined[-1] = f"{joined[-1]} {line}"
        else:
            joined.append(line)
    return "\n".join(joined), ()


RULES: Mapping[str, Callable[[str], Repair]] = {
    rule.__name__: rule for rule in (quoted_printable, entities, quotes, whitespace, footer, unwrap)
}


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """`refused`: the repair that failed its audit, None where it passed; then `text` is what came in."""

    text: str
    removed: tuple[str, ...]
    refused: Audit | None = None


def audited(before: str, after: str, removed: tuple[str, ...]) -> Rewritten:
    """What becomes of a repair, whoever made it: a rule, a model or a person."""
    checked = audit(before, after, removed)
    if not checked.passed:
        return Rewritten(text=before, removed=(), refused=checked)
    return Rewritten(text=after, removed=removed)


@dataclass(frozen=True, kw_only=True)
class Rewriter:
    """`rules` in the order in which they are applied. Raises UserInputError for one that does not exist."""

    rules: tuple[str, ...]

    def __post_init__(self) -> None:
        if unknown := [name for name in self.rules if name not in RULES]:
            raise UserInputError(f"no rule is called {unknown[0]}", remedy="one of: " + ", ".join(RULES))

    def rewrite(self, text: str) -> Rewritten:
        now, removed = text, tuple[str, ...]()
        for name in self.rules:
            now, taken = RULES[name](now)
            removed += taken
        return audited(text, now, removed)

    def plus(self, rule: str) -> Rewriter:
        """With one more rule, in the order of `RULES`."""
        return Rewriter(rules=tuple(name for name in RULES if name in {*self.rules, rule}))

    @property
    def digest(self) -> str:
        return digest_of([RULES_VERSION, list(self.rules)])


def evaluate(
    version: str, rewriter: Rewriter, damaged: Sequence[str], wanted: Sequence[str], on: EvaluationSet
) -> Evaluation:
    """Right is a text that comes out exactly as it should; the score is the share of lines that agree."""
    repaired = [rewriter.rewrite(text) for text in damaged]
    values = np.array([agreeing_lines(each.text, text) for each, text in zip(repaired, wanted, strict=True)])
    return Evaluation(version=version, evaluation_sha256=on.sha256, metric=METRIC, values=values, right=values >= 1.0)


def agreeing_lines(text: str, wanted: str) -> float:
    """2 * common / all lines, as in the F1 of two multisets of lines; blanks at line ends count."""
    ours, theirs = Counter(text.split("\n")), Counter(wanted.split("\n"))
    common = sum((ours & theirs).values())
    return 2.0 * common / (sum(ours.values()) + sum(theirs.values()))
