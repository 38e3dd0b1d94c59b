"""Exact n-gram overlap of documents with benchmark items. Pure: texts in, matches out.

Words are runs of letters and digits of the NFKC-normalised, lower-cased text, so that punctuation, case and layout
hide nothing. An item with fewer than n words is searched for as a whole. Not covered: paraphrases, translations,
misspellings, and scripts without blanks between words beyond runs of whole phrases.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_WORD = re.compile(r"[^\W_]+")


@dataclass(kw_only=True)
class Match:
    """What one document shares with one item: distinct n-grams, and one of them as words."""

    item: str
    example: str
    ngrams: set[tuple[int, ...]] = field(default_factory=set)


class Overlaps:
    """The n-grams of a benchmark, ready to be searched for. Memory grows with the benchmark, not with the corpus."""

    def __init__(self, items: Iterable[tuple[str, str]], n: int) -> None:
        """`items`: (key, text)."""
        self.n = n
        self.num_ngrams: dict[str, int] = {}
        self.num_short = 0
        self._ids: dict[str, int] = {}
        self._items: dict[tuple[int, ...], list[str]] = {}
        for key, text in items:
            self._add(key, words(text))
        self._words = list(self._ids)
        self._lengths = sorted({len(ngram) for ngram in self._items})

    def find(self, text: str) -> list[Match]:
        """Items with which the text shares at least one n-gram."""
        found: dict[str, Match] = {}
        for run in self._known_runs(text):
            for length in self._lengths:
                for start in range(len(run) - length + 1):
                    ngram = tuple(run[start : start + length])
                    for item in self._items.get(ngram, ()):
                        self._note(found, item, ngram)
        return list(found.values())

    def share(self, match: Match) -> float:
        """Of the item's distinct n-grams, how many the document has."""
        return len(match.ngrams) / self.num_ngrams[match.item]

    def _add(self, key: str, text: list[str]) -> None:
        ids = [self._ids.setdefault(word, len(self._ids)) for word in text]
        self.num_short += len(ids) < self.n
        length = min(self.n, len(ids))
        ngrams = {tuple(ids[start : start + length]) for start in range(len(ids) - length + 1)} if ids else set()
        self.num_ngrams[key] = len(ngrams)
        for ngram in ngrams:
            self._items.setdefault(ngram, []).append(key)

    def _known_runs(self, text: str) -> Iterable[list[int]]:
        """Stretches of words that all occur in the benchmark, as numbers: an n-gram never crosses another word."""
        run: list[int] = []
        for word in words(text):
            number = self._ids.get(word)
            if number is not None:
                run.append(number)
            elif run:
                yield run
                run = []
        yield run

    def _note(self, found: dict[str, Match], item: str, ngram: tuple[int, ...]) -> None:
        if item not in found:
            found[item] = Match(item=item, example=self._told(ngram))
        found[item].ngrams.add(ngram)

    def _told(self, ngram: tuple[int, ...]) -> str:
        return " ".join(self._words[number] for number in ngram)


def words(text: str) -> list[str]:
    """The words that are compared."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def text_of(record: Mapping[str, object]) -> str:
    """All strings of a JSON record, at any depth, in order: question, choices, answer."""
    parts: list[str] = []
    waiting: list[object] = [record]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            parts.append(value)
        elif isinstance(value, Mapping):
            waiting += reversed(list(value.values()))
        elif isinstance(value, list):
            waiting += reversed(value)
    return "\n".join(parts)
