"""The kind of a question by meaning: nearest prototypes vote. For questions that no form recognises."""

from __future__ import annotations

import re
from collections.abc import Collection
from weakref import WeakKeyDictionary

import numpy as np

from agents.chat.forms import Kind
from agents.chat.prototypes import PROTOTYPES
from agents.chat.questions import named
from context_store.embedding import Embedder, Vectors

_NEIGHBOURS = 6
_LEAST = 0.3  # cosine of the nearest prototype; what is farther from all is no question of any kind
_MARGIN = 0.5  # of the best kind's vote: a kind with less is not worth a try
_MAX_KINDS = 2


class Meaning:
    """Votes of the prototypes, embedded as the store embeds."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def kinds(self, text: str, known_runs: Collection[str]) -> list[Kind]:
        """The likeliest kinds, at most two, best first; none for a question that is like no prototype, or most like
        those that nothing stored can answer.
        """
        asked = self._embedder.embed([text, _without_topic(text, known_runs)])
        cosines = (_prototypes(self._embedder) @ asked.T).mean(axis=1)
        nearest = np.argsort(-cosines, kind="stable")[:_NEIGHBOURS]
        if cosines[nearest[0]] < _LEAST:
            return []
        votes: dict[Kind, float] = {}
        for each in nearest:
            kind = _KINDS[each]
            votes[kind] = votes.get(kind, 0.0) + float(cosines[each]) ** 2
        most = max(votes.values())
        if votes.pop(Kind.OTHER, 0.0) == most:
            return []
        likely = [kind for kind, vote in votes.items() if vote >= _MARGIN * most]
        return sorted(likely, key=lambda kind: -votes[kind])[:_MAX_KINDS]


def _prototypes(embedder: Embedder) -> Vectors:
    """[prototypes, DIMENSIONS], once for each embedder of a process: seconds with a model."""
    if embedder not in _EMBEDDED:
        _EMBEDDED[embedder] = embedder.embed([text for texts in PROTOTYPES.values() for text in texts])
    return _EMBEDDED[embedder]


_EMBEDDED: WeakKeyDictionary[Embedder, Vectors] = WeakKeyDictionary()


_KINDS = tuple(kind for kind, texts in PROTOTYPES.items() for _ in texts)


def _without_topic(text: str, known_runs: Collection[str]) -> str:
    """Prototypes speak of "the run" and of X; a name says nothing of the kind, and would outweigh what does."""
    found, _ = named(text, known_runs)
    for each in found:
        text = text.replace(each, "the run")
    words = (word if word.lower() in _SPOKEN or not word[0].isalpha() else "X" for word in _WORD.findall(text))
    return _MANY_X.sub("X", " ".join(words)).replace(" '", "'")


_WORD = re.compile(r"[A-Za-z][\w-]*|\d[\w.,]*|[?,.!']")
_MANY_X = re.compile(r"\bX(?: (?:of |the |a |an |in |on )*X)+\b")
_SPOKEN = frozenset(word.lower() for texts in PROTOTYPES.values() for text in texts for word in _WORD.findall(text))
