"""How near a question is in meaning to each kind of questions, by prototypes of the kinds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from agents.chat.forms import Kind
from agents.chat.prototypes import PROTOTYPES
from agents.chat.questions import named
from context_store.embedding import Embedder, Vectors

_NEAREST = 2  # prototypes of a kind that count


class Meaning:
    """The prototypes, embedded as the store embeds."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def closeness(self, text: str, known_runs: Collection[str]) -> Mapping[Kind, float]:
        """Of every kind that has prototypes: mean cosine of its nearest."""
        cosines = self._cosines(text, known_runs)
        own = {kind: np.sort(cosines[[i for i, each in enumerate(_KINDS) if each is kind]]) for kind in PROTOTYPES}
        return {kind: float(values[-_NEAREST:].mean()) for kind, values in own.items()}

    def _cosines(self, text: str, known_runs: Collection[str]) -> NDArray[np.float32]:
        """To each prototype: of the question, and of its form without what it is about."""
        asked = self._embedder.embed([text, _without_topic(text, known_runs)])
        return np.asarray((_prototypes(self._embedder) @ asked.T).mean(axis=1), np.float32)


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
