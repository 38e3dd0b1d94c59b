"""What counts as a model's answer. Extractors differ, so all of them read every output and their disagreement is shown.

An extractor gives the answer it finds, or None: "unparsed" is not "wrong".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from loops.evals.protocol import Matching
from loops.evals.task import Item

Extractor = Callable[[str], str | None]

_NUMBER = r"[-+]?\$?\d[\d,]*(?:\.\d+)?(?:/\d+)?"
_ANSWER_IS = re.compile(r"[Tt]he (?:final )?answer is:?\s*(.+?)(?:\.(?:\s|$)|\n|$)")
_STRICT = re.compile(rf"The answer is ({_NUMBER})\.")
_FINAL = re.compile(r"[Ff]inal [Aa]nswer:?(?:\s*The final answer is)?\s*(.+?)(?:\.(?:\s|$)|\n|$)")
_LETTER_IS = re.compile(r"[Tt]he answer is:?\s*\(?\**([A-J])\b")
_ANY_LETTER = re.compile(r"\(?\b([A-J])\b\)?")


def _first(pattern: re.Pattern[str]) -> Extractor:
    def extract(text: str) -> str | None:
        found = pattern.search(text)
        return found.group(1).strip() if found else None

    return extract


def _last(pattern: re.Pattern[str]) -> Extractor:
    def extract(text: str) -> str | None:
        found = pattern.findall(text)
        return found[-1].strip() if found else None

    return extract


def boxed(text: str) -> str | None:
    """The content of the last \\boxed{...}, braces balanced."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for index in range(start + len("\\boxed"), len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if depth == 0:
            return text[start + len("\\boxed{") : index].strip()
    return None


def last_line(text: str) -> str | None:
    """The last line with text, without a label before a colon."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rpartition(":")[2].strip().rstrip(".") or None if lines else None


def fenced(text: str) -> str | None:
    """Code of the first fenced block; the text up to a closing fence where it was opened in the prompt."""
    opened = re.search(r"```(?:python)?\n(.*?)(?:```|$)", text, re.S)
    code = opened.group(1) if opened else text.partition("```")[0]
    return code if code.strip() else None


def continuation(text: str) -> str | None:
    """All of it: the body that continues a signature."""
    return text if text.strip() else None


EXTRACTORS: Mapping[str, Extractor] = {
    "answer_is": _last(_ANSWER_IS),
    "answer_is_leftmost": _first(_ANSWER_IS),
    "strict_number": _first(_STRICT),
    "flexible_number": _last(re.compile(_NUMBER)),
    "final_answer": _last(_FINAL),
    "boxed": boxed,
    "option_letter": _last(_LETTER_IS),
    "any_letter": _last(_ANY_LETTER),
    "last_line": last_line,
    "fenced": fenced,
    "continuation": continuation,
}

# Which extractors read the same outputs beside the protocol's own.
ENSEMBLES: Mapping[Matching, tuple[str, ...]] = {
    Matching.EXACT: ("answer_is", "answer_is_leftmost", "strict_number", "flexible_number", "boxed", "last_line"),
    Matching.MATH: ("answer_is", "answer_is_leftmost", "final_answer", "flexible_number", "boxed", "last_line"),
    Matching.OPTION: ("option_letter", "any_letter", "last_line"),
    Matching.TESTS: (),
}


def extractors_of(own: str, matching: Matching) -> tuple[str, ...]:
    """The protocol's own first."""
    return (own, *(name for name in ENSEMBLES[matching] if name != own))


def is_right(found: str, item: Item, matching: Matching) -> bool:
    """Whether an extracted answer is the item's."""
    if matching is Matching.OPTION:
        return found.strip("()*. ").upper() == item.letter
    if normal(found) == normal(item.answer):
        return True
    one, other = as_number(found), as_number(item.answer)
    return matching is Matching.MATH and one is not None and one == other


def normal(text: str) -> str:
    """Case, thousands separators, currency, emphasis, quotes and a closing full stop do not count."""
    bare = re.sub(r"[\s$*`\"']+", " ", text.casefold()).strip().rstrip(".").strip()
    return re.sub(r"(?<=\d),(?=\d{3})", "", bare)


def as_number(text: str) -> Fraction | None:
    """The exact value of a number, a fraction (also \\frac{a}{b}) or a percentage; None for anything else."""
    bare = normal(re.sub(r"\\[dt]?frac\{(-?\d+)\}\{(\d+)\}", r"\1/\2", text)).replace(" ", "")
    percent = bare.endswith(("%", "\\%"))
    try:
        value = Fraction(bare.rstrip("%").rstrip("\\"))
    except (ValueError, ZeroDivisionError):
        return None
    return value / 100 if percent else value
