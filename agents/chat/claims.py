"""Checks a model's text claim by claim: what cites nothing that was really seen, or not what it says, is taken out.

A claim is a sentence with its citations `[kind:id#slice]`. It stays when
1. it cites something, and every citation was returned by a tool in this thread (or lies within what was);
2. every number in it stands in the cited rows, their slices, or the question;
3. a word of judgement (proven, refuted, innocent, approved ...) in it stands in a cited row;
4. at least half of its words of meaning stand in the cited rows.
What this does not cover: a sentence that twists its cited row in the row's own words stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agents import evidence
from agents.chat.answer import Statement
from agents.tools import ToolResult
from agents.tools.matching import words
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

_CITATION = re.compile(r"\[([^\[\]]+)\]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\s\[(])|\n+")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])", re.IGNORECASE)
_JUDGEMENTS = frozenset(
    words("proven proved proves refuted innocent excluded approved rejected harmless fixed verified")
)
_SUPPORT = 0.5
_TOLERANCE = 0.01
_MAX_TEXTS = 4  # kept of one reference


@dataclass
class Seen:
    """Evidence that tools returned in a thread, with the rows that cite it."""

    texts: dict[str, list[str]] = field(default_factory=dict)

    def add(self, found: ToolResult) -> None:
        for row in found.rows:
            for ref in row.evidence:
                known = self.texts.setdefault(str(ref), [])
                if row.text not in known:
                    known.append(row.text)
                    del known[:-_MAX_TEXTS]

    def about(self, ref: EvidenceRef) -> list[str]:
        """Rows that rest on `ref` or on what contains it; none when it was never seen."""
        if str(ref) in self.texts:
            return self.texts[str(ref)]
        outer = (known for known in self.texts if known.startswith(f"{ref.kind}:{ref.id}"))
        return [t for known in outer if evidence.within(ref, EvidenceRef.parse(known)) for t in self.texts[known]]

    def dump(self) -> str:
        return json.dumps(self.texts)

    @classmethod
    def load(cls, text: str) -> Seen:
        return cls(texts=json.loads(text or "{}"))


@dataclass(frozen=True, kw_only=True)
class Checked:
    """`removed`: (claim, why it was taken out)."""

    statements: tuple[Statement, ...]
    removed: tuple[tuple[str, str], ...]

    @property
    def claimed(self) -> int:
        return len(self.statements) + len(self.removed)


def check(text: str, seen: Seen, question: str) -> Checked:
    """Every claim of `text`, kept or removed."""
    kept, removed = [], []
    for sentence in filter(None, (part.strip(" -*#>\t") for part in _SENTENCE.split(text))):
        claim = " ".join(_CITATION.sub("", sentence).split()).replace(" .", ".").replace(" ,", ",")
        if not re.search(r"\w", claim):
            continue
        refs, why = _refs(sentence)
        why = why or _fault(claim, refs, seen, question)
        if why:
            removed.append((claim, why))
        else:
            kept.append(Statement(text=claim, evidence=refs))
    return Checked(statements=tuple(kept), removed=tuple(removed))


def _refs(sentence: str) -> tuple[tuple[EvidenceRef, ...], str]:
    """Citations of a sentence, and what is wrong with their form ("" for nothing)."""
    refs = []
    for group in _CITATION.findall(sentence):
        for text in re.split(r"[,;\s]+", group.strip()):
            try:
                refs.append(EvidenceRef.parse(text))
            except UserInputError:
                return (), f"'{text}' is no evidence id"
    return tuple(dict.fromkeys(refs)), ""


def _fault(claim: str, refs: tuple[EvidenceRef, ...], seen: Seen, question: str) -> str:
    if not refs:
        return "it cites nothing"
    rows = [seen.about(ref) for ref in refs]
    for ref, texts in zip(refs, rows, strict=True):
        if not texts:
            return f"{ref} was not returned by any tool"
    said = [text for texts in rows for text in texts]
    known = _numbers([*said, question, *(f"{ref.id.replace('/', ' ')} {ref.slice.replace('..', ' ')}" for ref in refs)])
    for number in _numbers([claim]):
        if not any(abs(number - each) <= _TOLERANCE * abs(each) for each in known):
            return f"{number:g} does not stand in what it cites"
    meant, there = set(words(claim)), {word for text in said for word in words(text)}
    if judged := (meant & _JUDGEMENTS) - there:
        return f"what it cites does not say '{min(judged)}'"
    if len(meant & there) < _SUPPORT * len(meant):
        return "most of its words do not stand in what it cites"
    return ""


def _numbers(texts: Iterable[str]) -> list[float]:
    return [float(each) for text in texts for each in _NUMBER.findall(re.sub(r"(?<=\d)-(?=\d)", " ", text))]
