"""Which case a question is about, and which thing of it answers.

Every passage of the cases that may be meant is weighed by near meaning and shared words: for the whole question, for
what it tells of the situation (which case), for what it asks without the words of the case's own title, and for the
thing that its slot is about (reading). The kind and the slot of the question say which parts of a case answer it.

The weights are those of a softmax over the passages of a store, fitted to 305 of the written questions of
`benchmarks/agent_questions` with a penalty on their squares. A blind set of another person is their test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from agents.chat.deciding import Candidate, leading, weigh
from agents.chat.forms import Kind
from agents.chat.meaning import Meaning
from agents.chat.passages import Part, Passage
from agents.chat.questions import Asked
from agents.chat.weights import WEIGHTS
from agents.tools.matching import words
from context_store.embedding import Embedder, Vectors
from context_store.vocabulary import meanings

ANSWERS: Mapping[Part, tuple[Kind, ...]] = {
    Part.CASE: (Kind.WHY, Kind.FIX, Kind.SIMILAR),
    Part.VERDICT: (Kind.PROOF,),
    Part.SYMPTOM: (Kind.SYMPTOM, Kind.DEPARTS, Kind.WHEN, Kind.TREND),
    Part.CHANGE: (Kind.CHANGED, Kind.HISTORY),
    Part.SUSPECT: (Kind.WHY_NOT,),
    Part.TRIED: (Kind.TRIED, Kind.WHY_NOT),
    Part.RERUN: (Kind.PROOF,),
    Part.PROPOSAL: (Kind.DECISIONS,),
    Part.RUN: (Kind.STATUS, Kind.RUNS),
}  # which kinds of questions a part answers
_TYPICAL = 3  # nearest passages of a case
_MOST_KEPT = 5000  # vectors of an embedder in a process
_WORD = re.compile(r"[\w'-]+")
_NAME = re.compile(r"\b(?=\w*\d)[A-Za-z]*\d[\w-]*|\b[A-Z]{2,}\w*|\b\w*[a-z][A-Z]\w*")  # 176B, TP, DeepSpeed
Row = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """`passages` and their `scores`, best first. `leading`: those of the case that the question is about, in order;
    `told`: all that they say; `near`: cosine of the nearest passage; `case_near`: how well the case fits.
    """

    passages: tuple[Passage, ...]
    scores: tuple[float, ...]
    leading: tuple[Passage, ...]
    told: str
    near: float
    case_near: float


class Weighing:
    def __init__(self, embedder: Embedder, meaning: Meaning) -> None:
        self._embedder = embedder
        self._meaning = meaning

    def weigh(self, asked: Asked, passages: Sequence[Passage], known_runs: Sequence[str]) -> Weighed:
        """At least one passage is needed."""
        closeness = self._meaning.closeness(asked.reading.asks, known_runs)
        return Scale(self._embedder, asked, passages, closeness).weighed


class Scale:
    """One question and its candidates. Arrays are over passages, [n]."""

    def __init__(
        self, embedder: Embedder, asked: Asked, passages: Sequence[Passage], closeness: Mapping[Kind, float]
    ) -> None:
        self._embedder = embedder
        self._asked = asked
        self._passages = passages
        self._closeness = closeness
        self._words = [words_of(each.told) for each in passages]
        self._vectors = vectors_of(embedder, [each.told for each in passages])
        ids = dict.fromkeys(each.case_id for each in passages)
        self._of_case = {key: [i for i, each in enumerate(passages) if each.case_id == key] for key in ids}

    @cached_property
    def weighed(self) -> Weighed:
        cases = {case_id: self.of_case(case_id).tolist() for case_id in self._of_case}
        of_cases, scores = weigh(WEIGHTS, self._asked.reading.slot, cases, self.candidates)
        first = leading(of_cases)
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        own = tuple(self._passages[i] for i in order if self._passages[i].case_id == first)
        return Weighed(
            passages=tuple(self._passages[i] for i in order),
            scores=tuple(scores[i] for i in order),
            leading=own,
            told=all_of(own),
            near=float(self._means.max()),
            case_near=of_cases[first],
        )

    @property
    def candidates(self) -> list[Candidate]:
        """The passages as the weights see them."""
        kinds = set(self._asked.kinds)
        return [
            Candidate(
                case_id=each.case_id,
                part=each.part,
                features=self.of_passage(i).tolist(),
                fits=bool(kinds & set(ANSWERS[each.part])),
            )
            for i, each in enumerate(self._passages)
        ]

    def of_case(self, case_id: str) -> Row:
        """Nearest and typical nearness to the question and to its situation; share of
        their words, of names and of the thing that the case has.
        """
        own = self._of_case[case_id]
        there = frozenset[str]().union(*(self._words[i] for i in own))
        found = []
        for means, asked in ((self._means, self._asked_words), (self._situation, self._situation_words)):
            near = np.sort(means[own])
            found += [near[-1], near[-_TYPICAL:].mean(), self._share(asked, there)]
        names = self._names
        found.append(sum(name in there for name in names) / len(names) if names else 0.0)
        found.append(self._share(self._thing_words, there))
        return np.asarray(found, np.float64)

    def of_passage(self, i: int) -> Row:
        """Nearness in meaning and words to what is asked beside the case's title, and to the thing; and in kind."""
        rest_words, rest = self._rest[self._passages[i].case_id]
        own, thing = self._words[i], self._thing_words
        of_thing = float(self._thing[i]) if thing else 0.0
        like = max(self._closeness[kind] for kind in ANSWERS[self._passages[i].part]) - max(self._closeness.values())
        found = [rest[i], self._share(rest_words, own), of_thing, self._share(thing, own), like]
        return np.asarray(found, np.float64)

    @cached_property
    def _means(self) -> Vectors:
        return self._near(self._asked.text)

    @cached_property
    def _situation(self) -> Vectors:
        return self._near(self._asked.reading.about)

    @cached_property
    def _thing(self) -> Vectors:
        return self._near(self._asked.reading.thing)

    def _near(self, text: str) -> Vectors:
        near: Vectors = self._vectors @ vectors_of(self._embedder, [text or "-"])[0]
        return near

    @cached_property
    def _rest(self) -> Mapping[str, tuple[set[str], Vectors]]:
        """By case, what is left of the question without the words of the case's title: its words, and as cosines."""
        titles = {each.case_id: each.row.text.split(". ")[0] for each in self._passages if each.part is Part.CASE}
        rests = {}
        for case_id, title in titles.items():
            known = set(words(title))
            left = " ".join(each for each in _WORD.findall(self._asked.reading.asks) if not set(words(each)) & known)
            rests[case_id] = (set(words(left)), self._near(left))
        return rests

    @cached_property
    def _names(self) -> set[str]:
        """Words of what is written as a name: with digits or capitals inside."""
        return {word for name in _NAME.findall(self._asked.rest) for word in words(name)}

    @cached_property
    def _thing_words(self) -> set[str]:
        return set(words(self._asked.reading.thing))

    @cached_property
    def _asked_words(self) -> set[str]:
        return set(words(self._asked.rest))

    @cached_property
    def _situation_words(self) -> set[str]:
        return set(words(self._asked.reading.about))

    def _share(self, asked: Set[str], there: Set[str]) -> float:
        """Of the weight of the words asked; rare words weigh more (BM25's)."""
        whole = sum(map(self._rarity, asked))
        return sum(map(self._rarity, asked & there)) / whole if whole else 0.0

    def _rarity(self, word: str) -> float:
        num_all, num_holding = len(self._words), self._holding.get(word, 0)
        return math.log(1 + (num_all - num_holding + 0.5) / (num_holding + 0.5))

    @cached_property
    def _holding(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for text in self._words:
            for word in text:
                counts[word] = counts.get(word, 0) + 1
        return counts


def all_of(passages: Sequence[Passage]) -> str:
    """All that they say, and words for the same."""
    said = " ".join(f"{each.told} {each.row.text}" for each in passages)
    return f"{said} {meanings(said)}"


@lru_cache(_MOST_KEPT)
def words_of(text: str) -> frozenset[str]:
    """With words for the same."""
    return frozenset(words(f"{text} {meanings(text)}"))


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """[texts, DIMENSIONS]; what a process has embedded before is not embedded again."""
    known = _KEPT.setdefault(embedder, {})
    if new := [text for text in dict.fromkeys(texts) if text not in known]:
        if len(known) > _MOST_KEPT:
            known.clear()
            new = list(dict.fromkeys(texts))
        known.update(zip(new, embedder.embed(new), strict=True))
    return np.asarray([known[text] for text in texts], np.float32)


_KEPT: WeakKeyDictionary[Embedder, dict[str, Vectors]] = WeakKeyDictionary()
