"""Which case a question is about, which thing of it answers, and whether the store knows at all.

Every passage of the cases that may be meant is weighed by near meaning and shared words, twice: for the whole question,
and for what is left of it without the words of the case's own title, since that tells what is asked about the case. The
kind of the question, by form and by meaning, says which parts of a case answer it.

The weights were chosen on the written questions of `benchmarks/agent_questions`: those of a case by hand, those of a
passage listwise (softmax over the passages of four cases), `_SURE` by logistic regression. A blind set of a fourth
person is their test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from agents.chat.forms import Kind
from agents.chat.meaning import Meaning
from agents.chat.passages import Part, Passage
from agents.chat.places import telling
from agents.chat.questions import Asked
from agents.tools.matching import words
from context_store.embedding import Embedder, Vectors
from context_store.vocabulary import meanings

ANSWERS: Mapping[Part, tuple[Kind, ...]] = {
    Part.CASE: (Kind.WHY, Kind.FIX, Kind.SIMILAR),
    Part.VERDICT: (Kind.PROOF,),
    Part.SYMPTOM: (Kind.SYMPTOM, Kind.DEPARTS, Kind.WHEN, Kind.TREND),
    Part.CHANGE: (Kind.CHANGED, Kind.HISTORY),
    Part.SUSPECT: (Kind.WHY_NOT,),
    Part.TRIED: (Kind.TRIED,),
    Part.RERUN: (Kind.PROOF,),
    Part.PROPOSAL: (Kind.DECISIONS,),
    Part.RUN: (Kind.STATUS, Kind.RUNS),
}  # which kinds of questions a part answers
_NEAREST, _TYPICAL, _SHARED = 4.0, 2.0, 3.0  # of a case: its nearest passage, its three nearest, words of all of it
_OF_CASE, _MEANS, _SHARES = 2.0, 3.24, 1.42  # of a passage: its case, meaning, words
_REST_MEANS, _REST_SHARES, _KIND = 2.95, 3.2, 2.17  # the same for what is left of the question; its kind by meaning
_PRIOR: Mapping[Part, float] = {
    Part.CASE: 0.65, Part.VERDICT: -0.29, Part.SYMPTOM: -0.84, Part.CHANGE: -1.28, Part.SUSPECT: 0.05,
    Part.TRIED: -0.28, Part.RERUN: -1.4, Part.PROPOSAL: 2.42, Part.RUN: 0.96,
}  # fmt: skip
_BY_FORM: Mapping[Part, float] = {
    Part.CASE: 1.83, Part.VERDICT: 0.97, Part.SYMPTOM: 2.21, Part.CHANGE: 3.19, Part.SUSPECT: 1.06,
    Part.TRIED: 2.46, Part.RERUN: 0.06, Part.PROPOSAL: 0.81, Part.RUN: 1.59,
}  # fmt: skip
_TRIED_IF_WHY_NOT = 1.38  # what is asked for a reason against was often tried
_SURE = (-1.19, 0.97, -3.27, 3.44, 1.24)  # constant, case, share of words untold, like a question at all, rest means
_CASES_WEIGHED = 4
_MOST_KEPT = 5000  # vectors of an embedder in a process
_WORD = re.compile(r"[\w'-]+")


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """`passages` and their `scores`, best first; `sure`: 0..1, that the store answers the question; `told`: all of the
    leading case; `rest_means`: cosine of the best passage to what is asked about the case.
    """

    passages: tuple[Passage, ...]
    scores: tuple[float, ...]
    sure: float
    told: str
    rest_means: float


class Weighing:
    def __init__(self, embedder: Embedder, meaning: Meaning) -> None:
        self._embedder = embedder
        self._meaning = meaning

    def weigh(self, asked: Asked, passages: Sequence[Passage], known_runs: Sequence[str]) -> Weighed:
        """At least one passage is needed."""
        closeness = self._meaning.closeness(asked.text, known_runs)
        return _Scale(self._embedder, asked, passages, closeness).weighed


class _Scale:
    """One question and its candidates. Arrays are over passages, [n]."""

    def __init__(
        self, embedder: Embedder, asked: Asked, passages: Sequence[Passage], closeness: Mapping[Kind, float]
    ) -> None:
        self._embedder = embedder
        self._asked = asked
        self._passages = passages
        self._closeness = closeness
        self._words = [set(words(each.told)) for each in passages]
        self._vectors = vectors_of(embedder, [each.told for each in passages])
        self._means = self._vectors @ embedder.embed([asked.text])[0]
        ids = dict.fromkeys(each.case_id for each in passages)
        self._of_case = {key: [i for i, each in enumerate(passages) if each.case_id == key] for key in ids}

    @cached_property
    def weighed(self) -> Weighed:
        of_cases = {key: self._case_score(own) for key, own in self._of_case.items()}
        leading = sorted(of_cases, key=lambda key: -of_cases[key])[:_CASES_WEIGHED]
        best = of_cases[leading[0]]
        scored = [pair for key in leading for pair in self._scores(key, of_cases[key] - best)]
        scored.sort(key=lambda pair: -pair[1])
        told = self._told(leading[0])
        first = scored[0][0]
        rest_means = float(self._rest(self._passages[first].case_id)[1][first])
        return Weighed(
            passages=tuple(self._passages[i] for i, _ in scored),
            scores=tuple(score for _, score in scored),
            sure=self._sure(best, told, rest_means),
            told=told,
            rest_means=rest_means,
        )

    def _case_score(self, own: Sequence[int]) -> float:
        nearest = np.sort(self._means[own])
        shared = self._share(self._asked_words, set().union(*(self._words[i] for i in own)))
        return float(_NEAREST * nearest[-1] + _TYPICAL * nearest[-3:].mean() + _SHARED * shared)

    def _scores(self, case_id: str, behind: float) -> list[tuple[int, float]]:
        """Index and score of each passage of a case."""
        rest, rest_means = self._rest(case_id)
        own = self._of_case[case_id]
        found = []
        for i in own:
            part = self._passages[i].part
            score = (
                _OF_CASE * behind + _MEANS * self._means[i] + _SHARES * self._share(self._asked_words, self._words[i])
            )
            score += _REST_MEANS * rest_means[i] + _REST_SHARES * self._share(rest, self._words[i])
            score += _KIND * self._like(part) + _PRIOR[part]
            score += _BY_FORM[part] if self._asked.kind in ANSWERS[part] else 0.0
            score += _TRIED_IF_WHY_NOT if (part, self._asked.kind) == (Part.TRIED, Kind.WHY_NOT) else 0.0
            found.append((i, float(score)))
        return found

    def _sure(self, case_score: float, told: str, rest_means: float) -> float:
        there, named = set(words(told)), telling(self._asked)
        untold = len(named - there) / max(1, len(named))
        kinds = [value for kind, value in self._closeness.items() if kind is not Kind.OTHER]
        like = max(kinds) - self._closeness[Kind.OTHER]
        z = float(np.dot(_SURE, (1.0, case_score, untold, like, rest_means)))
        return 1.0 / (1.0 + math.exp(-z))

    def _rest(self, case_id: str) -> tuple[set[str], NDArray[np.float32]]:
        """What is left of the question without the words of the case's title, as words and as cosines."""
        title = next(each for each in (self._passages[i] for i in self._of_case[case_id]) if each.part is Part.CASE)
        known = set(words(title.row.text.split(". ")[0]))
        left = " ".join(each for each in _WORD.findall(self._asked.rest) if not set(words(each)) & known)
        return set(words(left)), self._vectors @ vectors_of(self._embedder, [left or "-"])[0]

    def _like(self, part: Part) -> float:
        return max(self._closeness[kind] for kind in ANSWERS[part]) - max(self._closeness.values())

    def _told(self, case_id: str) -> str:
        own = [self._passages[i] for i in self._of_case[case_id]]
        said = " ".join(f"{each.told} {each.row.text}" for each in own)
        return f"{said} {meanings(said)}"

    @cached_property
    def _asked_words(self) -> set[str]:
        return set(words(self._asked.rest))

    def _share(self, asked: set[str], there: set[str]) -> float:
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
